//! What a client chooses weakens no limit.

use axum::{Router, routing::get};
use http::{Method, Response};
use limiter_core::Quota;
use limiter_tower::{Answers, RateLimitLayer, key::MatchedPathKey};
use tower::{Layer, service_fn};

use crate::{
    header, hello, hourly, limiter, per_address, request_from, routed, send, statuses, with,
};

/// Returns the response to the second request of a limit of one.
async fn refused(method: Method, content_type: &'static str) -> Response<()> {
    let service = per_address(limiter(Quota::per_hour(1)).0)
        .answers(Answers::new().grpc())
        .layer(service_fn(hello));
    statuses(&service, 1).await;
    let mut request = with(request_from("192.0.2.1"), "content-type", content_type);
    *request.method_mut() = method;
    send(&service, request).await.map(drop)
}

/// A cache in between once stored the empty body of a 200 for everyone.
#[tokio::test]
async fn only_a_post_is_answered_as_grpc_and_no_refusal_is_stored() {
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
            let response = refused(method.clone(), content_type).await;
            assert_eq!(response.status(), 429, "{method} {content_type}");
            assert_eq!(header(response.headers(), "cache-control"), Some("no-store"));
        }
        let response = refused(Method::POST, content_type).await;
        assert_eq!(response.status(), 200, "{content_type}");
        assert_eq!(header(response.headers(), "grpc-status"), Some("8"));
        assert_eq!(header(response.headers(), "cache-control"), Some("no-store"));
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
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 500);

    // Inside, requests that no route matches share one key.
    let app = Router::new().route("/known", get(async || "known")).layer(layer());
    assert_eq!(routed(&app, ["/a", "/b", "/c", "/known"]).await, [404, 404, 429, 200]);
}
