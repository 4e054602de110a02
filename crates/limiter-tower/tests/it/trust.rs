//! What a client chooses weakens no limit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use axum::{Router, routing::get};
use http::{HeaderName, Method, Request, Response, header::CONTENT_TYPE};
use limiter_core::{ErrorKind, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer,
    key::{FixedKey, HeaderKey, KeyExtractor, MatchedPathKey, key_fn},
    rule::{Mode, Wait},
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{Body, header, hello, limiter, limiter_of, per_address, request_from, send};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn gcra(name: &str, permits: u64) -> MemoryLimiter<ManualClock> {
    limiter_of(Policy::gcra(name, Quota::per_hour(permits))).0
}

fn used_by_address(limiter: &MemoryLimiter<ManualClock>) -> u64 {
    limiter.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used()
}

/// Returns the response to the second request of a limit of one.
async fn refused(method: Method, content_type: &'static str) -> Response<()> {
    let service = per_address(limiter(Quota::per_hour(1)).0).layer(service_fn(hello));
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
async fn only_an_absent_key_is_allowed_or_shared() {
    for choice in [OnMissing::Reject, OnMissing::Allow, OnMissing::Shared] {
        let keyed =
            RateLimitLayer::new(gcra("keyed", 9), HeaderKey::new(API_KEY).verified(), choice);
        let service = keyed.layer(service_fn(hello));
        let mut request = request_from("192.0.2.1");
        for value in ["one", "two"] {
            request.headers_mut().append(API_KEY, value.parse().unwrap());
        }
        assert_eq!(send(&service, request).await.status(), 400, "{choice:?}");

        // The server that forgot its connect info.
        let by_address = RateLimitLayer::new(gcra("address", 9), ClientIp::peer(), choice);
        let service = by_address.layer(service_fn(hello));
        let response = send(&service, Request::new(Body::default())).await;
        assert_eq!(response.status(), 500, "{choice:?}");
    }
}

fn accepts(layer: &RateLimitLayer) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(layer.layer(service_fn(hello))))).is_ok()
}

#[test]
fn a_closure_counts_as_chosen_by_the_client_unless_it_says_otherwise() {
    let by_tenant = || key_fn(|head| Some(head.headers.get("x-tenant")?.as_bytes().into()));
    let alone =
        |key: Box<dyn KeyExtractor>| RateLimitLayer::new(gcra("tenant", 1), key, OnMissing::Reject);
    assert!(!accepts(&alone(Box::new(by_tenant()))));
    assert!(!accepts(&alone(Box::new((by_tenant(), ClientIp::peer())))));
    assert!(accepts(&alone(Box::new(by_tenant().verified()))));
}

#[test]
fn a_rule_that_requests_can_skip_is_no_company_for_a_chosen_key() {
    let layer = |missing| {
        RateLimitLayer::new(gcra("keyed", 1), HeaderKey::new(API_KEY), OnMissing::Allow).and(
            gcra("user", 1),
            HeaderKey::new(HeaderName::from_static("x-user")).verified(),
            missing,
        )
    };
    assert!(!accepts(&layer(OnMissing::Allow)));
    assert!(accepts(&layer(OnMissing::Shared)));
    assert!(accepts(&layer(OnMissing::Reject)));
}

#[test]
fn a_mode_that_would_leave_a_chosen_key_alone_is_an_error() {
    let layer = RateLimitLayer::new(gcra("keyed", 1), HeaderKey::new(API_KEY), OnMissing::Allow)
        .and(gcra("address", 1), ClientIp::peer(), OnMissing::Reject);
    let (_, handle) = layer.build();
    let [keyed, address] = ["keyed", "address"].map(|name| handle.rule(name).unwrap());
    for mode in [Mode::SHADOW, Mode::sample(99).unwrap()] {
        let error = address.set_mode(mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert_eq!(address.mode(), Mode::ENFORCE);
    }
    keyed.set_mode(Mode::SHADOW).unwrap();
    address.set_mode(Mode::sample(50).unwrap()).unwrap();
    assert!(keyed.set_mode(Mode::ENFORCE).is_err());
    keyed.set_mode(Mode::sample(50).unwrap()).unwrap();
    handle.switch_off();
}

/// HTTP/2 lets a client reset a stream at once. Were it refunded, its address would never be limited,
/// and the store would get all the load.
#[tokio::test]
async fn a_client_that_goes_away_during_a_check_stays_charged() {
    let (address, global) = (gcra("address", 3), Deferred::new(gcra("global", 9)));
    let mut service = RateLimitLayer::new(address.clone(), ClientIp::peer(), OnMissing::Reject)
        .and(global.clone(), FixedKey::new("all"), OnMissing::Reject)
        .layer(service_fn(hello));
    for reset in 1..=3 {
        drop(service.ready().await.unwrap().call(request_from("192.0.2.1")));
        assert_eq!(used_by_address(&address), reset);
    }
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 429);
    assert_eq!(global.checks(), 0);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_gives_back_what_it_waits_for() {
    let address = gcra("address", 9);
    let (global, _) = limiter_of(Policy::gcra("global", Quota::per_minute(1)));
    let wait = Wait::up_to(Duration::from_secs(3_600)).queue(1);
    let mut service = RateLimitLayer::new(address.clone(), ClientIp::peer(), OnMissing::Reject)
        .and_waiting(global.clone(), FixedKey::new("all"), OnMissing::Reject, wait)
        .layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    for waited in 2..=4 {
        let mut waiting = Box::pin(service.ready().await.unwrap().call(request_from("192.0.2.1")));
        assert!(poll_once(waiting.as_mut()).is_none());
        drop(waiting);
        // Its place is free again, or the next one would be refused.
        assert_eq!((used_by_address(&address), global.peek("all").used()), (waited, 1));
    }
}

/// Polls a future once.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

/// A translator gives each IPv4 client an address in one network of 96 bits, so a prefix of 64 bits would
/// count all of them under one key.
#[tokio::test]
async fn clients_behind_nat64_are_counted_by_their_ipv4_address() {
    let service = per_address(limiter(Quota::per_hour(1)).0).layer(service_fn(hello));
    for (address, status) in [
        ("64:ff9b::198.51.100.1", 200),
        ("64:ff9b::198.51.100.2", 200),
        ("64:ff9b::198.51.100.1", 429),
        ("198.51.100.1", 429),
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
    let layer = || RateLimitLayer::new(gcra("route", 2), MatchedPathKey, OnMissing::Allow);
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
