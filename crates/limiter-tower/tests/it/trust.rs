//! What a client chooses weakens no limit.

use limiter_tower::key::MatchedPathKey;

use crate::*;

/// A firewall and an access log take the status 200 for a success, and a cache in between once stored the empty body of
/// one for everyone.
#[tokio::test]
async fn only_a_post_to_a_layer_with_grpc_is_answered_as_grpc_and_no_refusal_is_stored() {
    let address = || layer_of([by_address(hourly("address", 1))]);
    let store = || layer_of([by_address(failing("store")).on_store_failure(OnStoreFailure::Deny)]);
    let key = || HeaderKey::new(HeaderName::from_static("x-api-key")).assume_verified().or_reject();
    let keyed = || layer_of([Rule::new(hourly("keyed", 1), key())]);
    let grpc = || address().answers(Answers::new().grpc());
    let rows: [(&dyn Fn() -> RateLimitLayer, Method, u16); 8] = [
        (&address, Method::POST, 429),
        (&store, Method::POST, 503),
        (&keyed, Method::POST, 400),
        (&grpc, Method::GET, 429),
        (&grpc, Method::HEAD, 429),
        (&grpc, Method::PUT, 429),
        (&grpc, Method::OPTIONS, 429),
        (&grpc, Method::POST, 200),
    ];
    for (row, (layer, method, status)) in rows.into_iter().enumerate() {
        for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
            let service = layer().layer(service_fn(hello));
            statuses(&service, 1).await;
            let mut request = with(request(), "content-type", content_type);
            *request.method_mut() = method.clone();
            let response = send(&service, request).await;
            assert_eq!(response.status(), status, "row {row}: {content_type}");
            let grpc_status = header(response.headers(), "grpc-status");
            assert_eq!(grpc_status, (status == 200).then_some("8"), "row {row}: {content_type}");
            assert_eq!(header(response.headers(), "cache-control"), Some("no-store"));
        }
    }
}

/// A translator gives each IPv4 client an address in one network of 96 bits, so a prefix of 64 bits would
/// count all of them under one key.
#[tokio::test]
async fn clients_behind_nat64_and_by_6to4_are_counted_by_their_ipv4_address() {
    let service = per_address(limiter(Quota::per_hour(1)).0).layer(service_fn(hello));
    for (address, status) in [
        ("64:ff9b::198.51.100.1", 200),
        ("64:ff9b::198.51.100.2", 200),
        ("64:ff9b::198.51.100.1", 429),
        ("198.51.100.1", 429),
        // Each IPv4 address has 65,536 networks of 64 bits by 6to4.
        ("2002:c633:6405:1::1", 200),
        ("2002:c633:6405:2::1", 429),
        ("198.51.100.5", 429),
        ("2003:c633:6405:2::1", 200),
        // Outside of the well-known prefix the first 64 bits count.
        ("64:ff9b:0:1::198.51.100.1", 200),
        ("64:ff9b:0:1::198.51.100.9", 429),
        ("64:ff9c::198.51.100.3", 200),
    ] {
        assert_eq!(send(&service, request_from(address)).await.status(), status, "{address}");
    }
}

#[tokio::test]
async fn a_matched_path_outside_of_a_router_is_a_fault_of_the_server() {
    let layer = || RateLimitLayer::new(hourly("route", 2), MatchedPathKey);
    let service = layer().layer(service_fn(hello));
    assert_eq!(send(&service, request()).await.status(), 500);

    // Inside, requests that no route matches share one key.
    let app = Router::new().route("/known", get(async || "known")).layer(layer());
    assert_eq!(routed(&app, ["/a", "/b", "/c", "/known"]).await, [404, 404, 429, 200]);
}
