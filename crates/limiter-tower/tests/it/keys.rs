//! The key of a request. Addresses have a file of their own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::{Router, routing::get};
use http::{HeaderName, Method, Request};
use limiter_core::{Key, Quota};
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer,
    key::{
        ExtensionKey, FixedKey, HeaderKey, KeyExtractor, MatchedPathKey, MethodKey, MissingKey,
        key_fn,
    },
    rule::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{Body, hello, limiter, limiter_of, request_from, send};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// An authentication layer would insert it.
#[derive(Clone)]
struct User(u64);

fn head(request: &Request<Body>) -> limiter_tower::key::Head<'_> {
    request.into()
}

/// Sends the requests one after another to a limit of one, and returns their status codes.
async fn statuses(
    key: impl KeyExtractor + 'static,
    choice: OnMissing,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Vec<u16> {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let service = RateLimitLayer::new(limiter, key, choice).layer(service_fn(hello));
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(send(&service, request).await.status().as_u16());
    }
    statuses
}

fn with_header(name: &'static str, value: &str) -> Request<Body> {
    Request::builder().header(name, value).body(Body::default()).unwrap()
}

fn of_user(id: u64) -> Request<Body> {
    let mut request = request_from("192.0.2.1");
    request.extensions_mut().insert(User(id));
    request
}

#[tokio::test]
async fn a_verified_header_is_a_key() {
    let requests = ["one", "two", "one", "ONE"].map(|value| with_header("x-api-key", value));
    let key = HeaderKey::new(API_KEY).verified();
    assert_eq!(statuses(key, OnMissing::Reject, requests).await, [200, 200, 429, 200]);
}

#[test]
fn several_header_lines_are_invalid_and_an_empty_one_is_absent() {
    let key = HeaderKey::new(API_KEY);
    let missing = |request: &Request<Body>| key.key(head(request)).unwrap_err();
    assert!(matches!(missing(&with_header("x-api-key", "")), MissingKey::Absent(_)));
    assert!(matches!(missing(&Request::new(Body::default())), MissingKey::Absent(_)));
    let mut two = with_header("x-api-key", "one");
    two.headers_mut().append(API_KEY, "two".parse().unwrap());
    assert!(matches!(missing(&two), MissingKey::Invalid(_)));
}

#[test]
fn a_header_that_nobody_verified_is_not_a_key_by_itself() {
    let alone = [
        Arc::new(HeaderKey::new(API_KEY)) as Arc<dyn KeyExtractor>,
        Arc::new(HeaderKey::new(API_KEY).secret()),
        Arc::new(HeaderKey::new(API_KEY).or(ClientIp::peer())),
        Arc::new((ClientIp::peer(), HeaderKey::new(API_KEY))),
        Arc::new(key_fn(|head| Some(head.path().into()))),
    ];
    for key in alone {
        let layer = RateLimitLayer::new(limiter(Quota::per_hour(1)).0, key, OnMissing::Reject);
        let result = catch_unwind(AssertUnwindSafe(|| drop(layer.layer(service_fn(hello)))));
        assert!(result.is_err());
    }
}

#[test]
fn only_a_rule_that_is_enforced_for_as_many_keys_stands_beside_such_a_header() {
    let layer = |mode, beside: Arc<dyn KeyExtractor>| {
        let [keyed, other] = ["keyed", "other"]
            .map(|name| limiter_of(limiter_core::Policy::gcra(name, Quota::per_hour(1))).0);
        let layer = RateLimitLayer::new(keyed, HeaderKey::new(API_KEY), OnMissing::Allow)
            .and(other, beside, OnMissing::Reject)
            .mode(mode);
        catch_unwind(AssertUnwindSafe(|| drop(layer.layer(service_fn(hello))))).is_ok()
    };
    assert!(layer(Mode::ENFORCE, Arc::new(ClientIp::peer())));
    assert!(!layer(Mode::SHADOW, Arc::new(ClientIp::peer())));
    assert!(!layer(Mode::ENFORCE, Arc::new(key_fn(|head| Some(head.path().into())))));
}

#[tokio::test]
async fn a_thousand_invented_api_keys_from_one_address_are_limited() {
    let (by_key, _) = limiter_of(limiter_core::Policy::gcra("key", Quota::per_hour(5)));
    let (by_address, _) = limiter_of(limiter_core::Policy::gcra("address", Quota::per_hour(20)));
    let service = RateLimitLayer::new(by_key, HeaderKey::new(API_KEY), OnMissing::Allow)
        .and(by_address, ClientIp::peer(), OnMissing::Reject)
        .layer(service_fn(hello));
    let mut admitted = 0;
    for invented in 0..1_000 {
        let mut request = request_from("192.0.2.1");
        request.headers_mut().insert(API_KEY, invented.into());
        admitted += u32::from(send(&service, request).await.status() == 200);
    }
    assert_eq!(admitted, 20);
}

#[tokio::test]
async fn a_fixed_key_counts_everyone() {
    let requests = [request_from("192.0.2.1"), request_from("192.0.2.2")];
    assert_eq!(statuses(FixedKey::new("all"), OnMissing::Reject, requests).await, [200, 429]);
}

#[tokio::test]
async fn a_closure_can_combine_and_own() {
    let key = key_fn(|head| {
        let tenant = head.headers.get("x-tenant")?.to_str().ok()?;
        Some(Key::tuple([head.path().into(), tenant.to_lowercase().into()]))
    })
    .verified();
    let requests = ["a", "b", "A"].map(|value| with_header("x-tenant", value));
    assert_eq!(statuses(key, OnMissing::Reject, requests).await, [200, 200, 429]);
}

#[tokio::test]
async fn a_user_counts_alone_and_everyone_else_by_address() {
    let key = ExtensionKey::new(|user: &User| user.0.into()).or(ClientIp::peer());
    let requests = [of_user(1), of_user(2), request_from("192.0.2.1"), of_user(1)];
    assert_eq!(statuses(key, OnMissing::Reject, requests).await, [200, 200, 200, 429]);
}

#[test]
fn only_an_absent_key_falls_back() {
    struct Failing(MissingKey);
    impl KeyExtractor for Failing {
        fn key<'r>(&self, _: limiter_tower::key::Head<'r>) -> Result<Key<'r>, MissingKey> {
            Err(self.0.clone())
        }

        fn is_client_chosen(&self) -> bool {
            false
        }
    }
    for (missing, falls_back) in [
        (MissingKey::absent("a"), true),
        (MissingKey::invalid("b"), false),
        (MissingKey::server("c"), false),
    ] {
        let request = request_from("192.0.2.1");
        let key = Failing(missing.clone()).or(FixedKey::new("fallback"));
        assert_eq!(key.key(head(&request)).err(), (!falls_back).then_some(missing));
    }
}

#[test]
fn a_tuple_has_the_keys_of_its_parts_and_a_secret_is_redacted() {
    let mut request = with_header("x-api-key", "sk-1234");
    *request.uri_mut() = "/search?q=1".parse().unwrap();
    let by_path = || key_fn(|head| Some(head.path().into()));
    let key = (by_path(), MethodKey, HeaderKey::new(API_KEY).secret());
    let key = key.key(head(&request)).unwrap();
    assert_eq!(format!("{key:?}"), r#"["/search", "GET", [secret]]"#);
    assert!(key.is_secret());
    let missing = Request::new(Body::default());
    assert!((by_path(), HeaderKey::new(API_KEY)).key(head(&missing)).is_err());
}

#[tokio::test]
async fn routes_are_told_apart_by_their_pattern() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = RateLimitLayer::new(limiter, MatchedPathKey, OnMissing::Reject);
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .route("/files/{id}", get(|| async { "file" }))
        .layer(layer);
    let mut statuses = Vec::new();
    for path in ["/users/1", "/users/2", "/files/1"] {
        let request = Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
        statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200]);
}

#[tokio::test]
async fn known_methods_are_told_apart_and_invented_ones_are_not() {
    let invented = ["INVENTED", "OTHER"].map(|name| Method::from_bytes(name.as_bytes()).unwrap());
    let requests =
        invented.map(|method| Request::builder().method(method).body(Body::default()).unwrap());
    assert_eq!(statuses(MethodKey, OnMissing::Reject, requests).await, [200, 429]);
    let requests = [Method::GET, Method::POST, Method::GET]
        .map(|method| Request::builder().method(method).body(Body::default()).unwrap());
    assert_eq!(statuses(MethodKey, OnMissing::Reject, requests).await, [200, 200, 429]);
}

#[tokio::test]
async fn a_missing_key_is_rejected_allowed_or_shared() {
    let keyless = || (0..2).map(|_| Request::new(Body::default()));
    let by_header = || HeaderKey::new(API_KEY).verified();
    for (choice, expected) in [
        (OnMissing::Shared, [200, 429]),
        (OnMissing::Allow, [200, 200]),
        (OnMissing::Reject, [400, 400]),
    ] {
        assert_eq!(statuses(by_header(), choice, keyless()).await, expected);
    }
}

#[tokio::test]
async fn requests_without_a_key_share_with_no_request_that_has_one() {
    let requests = ["one", "", ""].map(|value| with_header("x-api-key", value));
    let key: Arc<dyn KeyExtractor> = Arc::new(HeaderKey::new(API_KEY).verified());
    assert_eq!(statuses(key, OnMissing::Shared, requests).await, [200, 200, 429]);
}
