//! The key of a request. Addresses have a file of their own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::{Router, routing::get};
use http::{HeaderName, Method, Request, header::HOST};
use limiter_core::{Key, Quota};
use limiter_tower::{
    ClientIp, RateLimitLayer, Rule,
    key::{
        ExtensionKey, FixedKey, Head, HeaderKey, KeyExtractor, KeySource, MatchedPathKey, MaybeKey,
        MethodKey, MissingKey, key_fn,
    },
    rule::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{Body, hello, limiter, limiter_of, request_from, send};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// An authentication layer would insert it.
#[derive(Clone)]
struct User(u64);

fn head(request: &Request<Body>) -> Head<'_> {
    request.into()
}

/// Sends the requests one after another to a limit of one, and returns their status codes.
async fn statuses(
    key: impl KeyExtractor + 'static,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Vec<u16> {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let service = RateLimitLayer::new(limiter, key).layer(service_fn(hello));
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
    let key = HeaderKey::new(API_KEY).assume_verified();
    assert_eq!(statuses(key.or_reject(), requests).await, [200, 200, 429, 200]);
}

#[test]
fn several_header_lines_are_invalid_and_an_empty_one_is_absent() {
    let key = HeaderKey::new(API_KEY);
    let missing = |request: &Request<Body>| key.find(head(request)).unwrap_err();
    assert!(matches!(missing(&with_header("x-api-key", "")), MissingKey::Absent(_)));
    assert!(matches!(missing(&Request::new(Body::default())), MissingKey::Absent(_)));
    let mut two = with_header("x-api-key", "one");
    two.headers_mut().append(API_KEY, "two".parse().unwrap());
    assert!(matches!(missing(&two), MissingKey::Invalid(_)));
}

#[test]
fn a_header_that_nobody_verified_is_not_a_key_by_itself() {
    let alone = [
        Arc::new(HeaderKey::new(API_KEY).or_reject()) as Arc<dyn KeyExtractor>,
        Arc::new(HeaderKey::new(API_KEY).secret().or_reject()),
        Arc::new(HeaderKey::new(API_KEY).or_reject().secret()),
        Arc::new(HeaderKey::new(API_KEY).or_shared()),
        Arc::new(HeaderKey::new(API_KEY).or(ClientIp::peer())),
        Arc::new(
            HeaderKey::new(API_KEY).assume_verified().or_try(HeaderKey::new(API_KEY)).or_reject(),
        ),
        Arc::new((ClientIp::peer(), HeaderKey::new(API_KEY).or_reject())),
        Arc::new(key_fn(|head| Some(head.path().into())).or_reject()),
    ];
    for key in alone {
        let source = key.source();
        let layer = || RateLimitLayer::new(limiter(Quota::per_hour(1)).0, key);
        assert!(catch_unwind(AssertUnwindSafe(layer)).is_err());
        assert!(matches!(source, KeySource::Chosen | KeySource::Partly));
    }
}

#[test]
fn only_a_rule_that_is_enforced_for_as_many_keys_may_be_beside_such_a_header() {
    let layer = |mode, beside: Arc<dyn KeyExtractor>| {
        let [keyed, other] = ["keyed", "other"]
            .map(|name| limiter_of(limiter_core::Policy::gcra(name, Quota::per_hour(1))).0);
        let keyed = Rule::new(keyed, HeaderKey::new(API_KEY).or_skip());
        let other = Rule::new(other, beside).with_mode(mode);
        catch_unwind(AssertUnwindSafe(|| RateLimitLayer::all([keyed, other]))).is_ok()
    };
    assert!(layer(Mode::ENFORCE, Arc::new(ClientIp::peer())));
    assert!(!layer(Mode::SHADOW, Arc::new(ClientIp::peer())));
    assert!(!layer(Mode::ENFORCE, Arc::new(key_fn(|head| Some(head.path().into())).or_reject())));
    // A key that many share is nobody's own.
    let by_path = key_fn(|head| Some(head.path().into())).shared().or_reject();
    assert!(!layer(Mode::ENFORCE, Arc::new(by_path)));
    assert!(!layer(Mode::ENFORCE, Arc::new(FixedKey::new("all"))));
}

#[tokio::test]
async fn a_thousand_invented_api_keys_from_one_address_are_limited() {
    let (by_key, _) = limiter_of(limiter_core::Policy::gcra("key", Quota::per_hour(5)));
    let (by_address, _) = limiter_of(limiter_core::Policy::gcra("address", Quota::per_hour(20)));
    let by_key = Rule::new(by_key, HeaderKey::new(API_KEY).or_skip());
    let service =
        RateLimitLayer::all([by_key, crate::by_address(by_address)]).layer(service_fn(hello));
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
    assert_eq!(statuses(FixedKey::new("all"), requests).await, [200, 429]);
}

#[tokio::test]
async fn a_closure_can_combine_and_own() {
    let key = key_fn(|head| {
        let tenant = head.headers.get("x-tenant")?.to_str().ok()?;
        Some(Key::tuple([head.path().into(), tenant.to_lowercase().into()]))
    })
    .assume_verified()
    .or_reject();
    let requests = ["a", "b", "A"].map(|value| with_header("x-tenant", value));
    assert_eq!(statuses(key, requests).await, [200, 200, 429]);
}

#[tokio::test]
async fn a_user_counts_alone_and_everyone_else_by_address() {
    let key = ExtensionKey::new(|user: &User| user.0.into()).or(ClientIp::peer());
    let requests = [of_user(1), of_user(2), request_from("192.0.2.1"), of_user(1)];
    assert_eq!(statuses(key, requests).await, [200, 200, 200, 429]);
}

#[test]
fn only_an_absent_key_falls_back() {
    struct Failing(MissingKey);
    impl MaybeKey for Failing {
        fn find<'r>(&self, _: Head<'r>) -> Result<Key<'r>, MissingKey> {
            Err(self.0.clone())
        }

        fn source(&self) -> KeySource {
            KeySource::Own
        }
    }
    for (missing, falls_back) in [
        (MissingKey::absent("a"), true),
        (MissingKey::invalid("b"), false),
        (MissingKey::server("c"), false),
    ] {
        let request = request_from("192.0.2.1");
        let key = || Failing(missing.clone());
        let found = [
            key().or(FixedKey::new("fallback")).key(head(&request)).err(),
            key().or_try(HeaderKey::new(HOST)).or_shared().key(head(&request)).err(),
            key().or_shared().key(head(&request)).err(),
        ];
        assert_eq!(found, [(); 3].map(|()| (!falls_back).then(|| missing.clone())));
        let skipped = if falls_back { MissingKey::Skipped } else { missing.clone() };
        assert_eq!(key().or_skip().key(head(&request)), Err(skipped));
        assert_eq!(key().or_reject().key(head(&request)), Err(missing.clone()));
    }
}

#[test]
fn a_tuple_has_the_keys_of_its_parts_and_a_secret_is_redacted() {
    let mut request = with_header("x-api-key", "sk-1234");
    *request.uri_mut() = "/search?q=1".parse().unwrap();
    let by_path = || key_fn(|head| Some(head.path().into())).or_reject();
    let key = (by_path(), MethodKey, HeaderKey::new(API_KEY).secret().or_reject());
    let key = key.key(head(&request)).unwrap();
    assert_eq!(format!("{key:?}"), r#"["/search", "GET", [secret]]"#);
    assert!(key.is_secret());
    let missing = Request::new(Body::default());
    assert!((by_path(), HeaderKey::new(API_KEY).or_reject()).key(head(&missing)).is_err());
}

#[tokio::test]
async fn routes_are_distinguished_by_their_pattern() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = RateLimitLayer::new(limiter, MatchedPathKey);
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
async fn known_methods_are_distinguished_and_invented_ones_are_not() {
    let invented = ["INVENTED", "OTHER"].map(|name| Method::from_bytes(name.as_bytes()).unwrap());
    let requests =
        invented.map(|method| Request::builder().method(method).body(Body::default()).unwrap());
    assert_eq!(statuses(MethodKey, requests).await, [200, 429]);
    let requests = [Method::GET, Method::POST, Method::GET]
        .map(|method| Request::builder().method(method).body(Body::default()).unwrap());
    assert_eq!(statuses(MethodKey, requests).await, [200, 200, 429]);
}

#[tokio::test]
async fn a_missing_key_is_rejected_skipped_or_shared() {
    let keyless = || (0..2).map(|_| Request::new(Body::default()));
    let by_header = || HeaderKey::new(API_KEY).assume_verified();
    assert_eq!(statuses(by_header().or_shared(), keyless()).await, [200, 429]);
    assert_eq!(statuses(by_header().or_skip(), keyless()).await, [200, 200]);
    assert_eq!(statuses(by_header().or_reject(), keyless()).await, [400, 400]);
}

#[tokio::test]
async fn requests_without_a_key_share_with_no_request_that_has_one() {
    let requests = ["one", "", ""].map(|value| with_header("x-api-key", value));
    let key: Arc<dyn KeyExtractor> =
        Arc::new(HeaderKey::new(API_KEY).assume_verified().or_shared());
    assert_eq!(statuses(key, requests).await, [200, 200, 429]);
}

/// An authentication layer would insert it.
#[derive(Clone)]
struct ApiKey(u64);

#[tokio::test]
async fn equal_keys_of_two_extractors_are_two_keys() {
    let with = |key: Option<u64>, user: Option<u64>| {
        let mut request = request_from("192.0.2.1");
        if let Some(key) = key {
            request.extensions_mut().insert(ApiKey(key));
        }
        if let Some(user) = user {
            request.extensions_mut().insert(User(user));
        }
        request
    };
    let by_key = || ExtensionKey::new(|key: &ApiKey| key.0.into());
    let by_user = || ExtensionKey::new(|user: &User| user.0.into());
    let keys: [Box<dyn KeyExtractor>; 3] = [
        Box::new(by_key().or(by_user().or_shared())),
        Box::new(by_key().or_try(by_user()).or_shared()),
        Box::new(by_key().or_try(by_user()).or(ClientIp::peer())),
    ];
    for key in keys {
        let rule = Rule::new(limiter(Quota::per_hour(1)).0, key);
        let service = RateLimitLayer::all([rule.clone()]).layer(service_fn(hello));
        for (key, user) in [(Some(7), None), (None, Some(7)), (None, None)] {
            let request = with(key, user);
            let key = rule.key(&request).unwrap();
            assert_eq!(rule.peek(&key).await.unwrap().used(), 0);
            assert_eq!(send(&service, request.clone()).await.status(), 200);
            // The key that the layer counts.
            assert_eq!(rule.peek(&key).await.unwrap().used(), 1);
            assert_eq!(send(&service, request.clone()).await.status(), 429);
            rule.reset(&key).await.unwrap();
            assert_eq!(send(&service, request.clone()).await.status(), 200);
        }
        // The first one that is there counts.
        assert_eq!(send(&service, with(Some(7), Some(8))).await.status(), 429);
    }
}

/// Finds the key 7 in requests for one path.
struct At(&'static str);

impl MaybeKey for At {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        let is_there = head.path() == self.0;
        is_there.then(|| 7_u64.into()).ok_or_else(|| MissingKey::absent("another path"))
    }
}

#[test]
fn each_extractor_of_a_chain_has_keys_of_its_own() {
    let left = At("/a").or_try(At("/b")).or_try(At("/c").or_try(At("/d")));
    let right = At("/a").or_try(At("/b").or_try(At("/c").or_try(At("/d"))));
    let last = || (FixedKey::new("7"), FixedKey::new("7"));
    let keys: [Box<dyn KeyExtractor>; 2] = [Box::new(left.or(last())), Box::new(right.or(last()))];
    for key in keys {
        let mut encoded = std::collections::BTreeSet::new();
        for path in ["/a", "/b", "/c", "/d", "/e"] {
            let request = Request::builder().uri(path).body(Body::default()).unwrap();
            let mut text = Vec::new();
            key.key(head(&request)).unwrap().encode(&mut text);
            assert!(encoded.insert(text), "{path}");
        }
    }
}
