//! What a client chooses weakens no limit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use axum::{Router, routing::get};
use http::{HeaderName, Method, Request, Response, header::CONTENT_TYPE};
use limiter_core::{Key, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{
    Answers, ClientIp, RateLimitLayer, Rule,
    key::{
        FixedKey, Head, HeaderKey, KeyExtractor, KeySource, MatchedPathKey, MaybeKey, MissingKey,
        key_fn,
    },
    rule::Wait,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{
    Body, by_address, header, hello, layer_of, limiter, limiter_of, per_address, poll_once,
    request_from, send,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn gcra(name: &str, permits: u64) -> MemoryLimiter<ManualClock> {
    limiter_of(Policy::gcra(name, Quota::per_hour(permits))).0
}

fn used_by_address(limiter: &MemoryLimiter<ManualClock>) -> u64 {
    limiter.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used()
}

/// Returns the response to the second request of a limit of one.
async fn refused(method: Method, content_type: &'static str) -> Response<()> {
    let service = per_address(limiter(Quota::per_hour(1)).0)
        .answers(Answers::new().grpc())
        .layer(service_fn(hello));
    send(&service, request_from("192.0.2.1")).await;
    let mut request = request_from("192.0.2.1");
    *request.method_mut() = method;
    request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
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

/// A second line of the header field once skipped the rule.
#[tokio::test]
async fn only_an_absent_key_is_skipped_or_shared() {
    type Endings = [Arc<dyn KeyExtractor>; 4];
    let header = || HeaderKey::new(API_KEY).assume_verified();
    let endings: Endings = [
        Arc::new(header().or_reject()),
        Arc::new(header().or_skip()),
        Arc::new(header().or_shared()),
        Arc::new(header().or(ClientIp::peer())),
    ];
    for (ending, key) in endings.into_iter().enumerate() {
        let service = RateLimitLayer::new(gcra("keyed", 9), key).layer(service_fn(hello));
        let mut request = request_from("192.0.2.1");
        for value in ["one", "two"] {
            request.headers_mut().append(API_KEY, value.parse().unwrap());
        }
        assert_eq!(send(&service, request).await.status(), 400, "ending {ending}");
    }

    // The server that forgot its connect info.
    let address = || PeerOrNone(ClientIp::peer());
    let endings: [Arc<dyn KeyExtractor>; 3] = [
        Arc::new(address().or_reject()),
        Arc::new(address().or_skip()),
        Arc::new(address().or_shared()),
    ];
    for (ending, key) in endings.into_iter().enumerate() {
        let service = RateLimitLayer::new(gcra("address", 9), key).layer(service_fn(hello));
        let response = send(&service, Request::new(Body::default())).await;
        assert_eq!(response.status(), 500, "ending {ending}");
    }
}

/// An address as a key that a request may not have.
struct PeerOrNone(ClientIp);

impl MaybeKey for PeerOrNone {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.key(head)
    }

    fn source(&self) -> KeySource {
        self.0.source()
    }
}

fn accepts<const N: usize>(rules: [Rule; N]) -> bool {
    catch_unwind(AssertUnwindSafe(|| RateLimitLayer::all(rules))).is_ok()
}

#[test]
fn a_closure_counts_as_chosen_by_the_client_unless_it_says_otherwise() {
    let by_tenant = || key_fn(|head| Some(head.headers.get("x-tenant")?.as_bytes().into()));
    let alone = |key: Box<dyn KeyExtractor>| accepts([Rule::new(gcra("tenant", 1), key)]);
    assert!(!alone(Box::new(by_tenant().or_reject())));
    assert!(!alone(Box::new((by_tenant().or_reject(), ClientIp::peer()))));
    assert!(alone(Box::new(by_tenant().assume_verified().or_reject())));
    assert!(alone(Box::new(by_tenant().or_reject().assume_verified())));
}

#[test]
fn a_rule_that_requests_can_skip_is_no_company_for_a_chosen_key() {
    let user = || HeaderKey::new(HeaderName::from_static("x-user")).assume_verified();
    let beside = |key: Box<dyn KeyExtractor>| {
        let keyed = Rule::new(gcra("keyed", 1), HeaderKey::new(API_KEY).or_skip());
        accepts([keyed, Rule::new(gcra("user", 1), key)])
    };
    assert!(!beside(Box::new(user().or_skip())));
    assert!(!beside(Box::new((user().or_skip(), ClientIp::peer()))));
    assert!(!beside(Box::new(user().or_shared())));
    assert!(beside(Box::new(user().or_reject())));
    assert!(beside(Box::new(user().or(ClientIp::peer()))));
}

#[tokio::test]
async fn a_client_that_disconnects_while_it_waits_charges_nothing_else() {
    let address = gcra("address", 9);
    let (global, _) = limiter_of(Policy::gcra("global", Quota::per_minute(1)));
    let wait = Wait::up_to(Duration::from_secs(3_600)).queue(3);
    let waiting = Rule::waiting(global.clone(), FixedKey::new("all"), wait);
    let mut service = layer_of([by_address(address.clone()), waiting]).layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    for _ in 0..3 {
        let mut waiting = Box::pin(service.ready().await.unwrap().call(request_from("192.0.2.1")));
        assert!(poll_once(waiting.as_mut()).is_none());
        drop(waiting);
        assert_eq!((used_by_address(&address), global.peek("all").used()), (1, 1));
    }
    // It keeps its places until it was due.
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 429);
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
    let layer = || RateLimitLayer::new(gcra("route", 2), MatchedPathKey);
    let service = layer().layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 500);

    // Inside, requests that no route matches share one key.
    let app = Router::new().route("/known", get(async || "known")).layer(layer());
    let mut statuses = Vec::new();
    for path in ["/a", "/b", "/c", "/known"] {
        let request = Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
        statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [404, 404, 429, 200]);
}
