//! The key of a request. Addresses have a file of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http::header::HOST;
use limiter_tower::key::{MatchedPathKey, MethodKey};

use crate::*;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// An authentication layer would insert it.
#[derive(Clone)]
struct User(u64);

fn head(request: &Request<Body>) -> Head<'_> {
    request.into()
}

fn of_api_key(value: &str) -> Request<Body> {
    with(request(), "x-api-key", value)
}

fn of_user(id: u64) -> Request<Body> {
    let mut request = request();
    request.extensions_mut().insert(User(id));
    request
}

fn of_method(name: &str) -> Request<Body> {
    let mut request = request();
    *request.method_mut() = Method::from_bytes(name.as_bytes()).unwrap();
    request
}

fn of_tenant(name: &str) -> Request<Body> {
    with(request_to("/search"), "x-tenant", name)
}

/// A limit of one for each key.
#[tokio::test]
async fn requests_are_counted_by_their_keys() {
    let verified = || HeaderKey::new(API_KEY).assume_verified();
    let user = || ExtensionKey::new(|user: &User| user.0.into());
    let path_and_tenant = key_fn(|head| {
        let tenant = head.headers.get("x-tenant")?.to_str().ok()?;
        Some(Key::tuple([head.path().into(), tenant.to_lowercase().into()]))
    });
    let [one, other] = ["192.0.2.1", "192.0.2.2"].map(request_from);
    let nobody = || vec![Request::new(Body::default()); 2];
    let rows: [(Arc<dyn KeyExtractor>, Vec<_>, &[u16]); 11] = [
        (
            Arc::new(verified().or_reject()),
            ["one", "two", "one", "ONE"].map(of_api_key).into(),
            &[200, 200, 429, 200],
        ),
        (Arc::new(FixedKey::new("all")), vec![one.clone(), other], &[200, 429]),
        (
            Arc::new(path_and_tenant.assume_verified().or_reject()),
            ["a", "b", "A"].map(of_tenant).into(),
            &[200, 200, 429],
        ),
        // A user counts alone, and everyone else by address.
        (
            Arc::new(user().or(ClientIp::peer())),
            vec![of_user(1), of_user(2), one, of_user(1)],
            &[200, 200, 200, 429],
        ),
        // Methods that somebody has invented are one.
        (Arc::new(MethodKey), ["INVENTED", "OTHER"].map(of_method).into(), &[200, 429]),
        (Arc::new(MethodKey), ["GET", "POST", "GET"].map(of_method).into(), &[200, 200, 429]),
        (Arc::new(verified().or_shared()), nobody(), &[200, 429]),
        (Arc::new(verified().or_skip()), nobody(), &[200, 200]),
        (Arc::new(verified().or_reject()), nobody(), &[400, 400]),
        // Those without a key share with no request that has one.
        (
            Arc::new(verified().or_shared()),
            ["one", "", ""].map(of_api_key).into(),
            &[200, 200, 429],
        ),
        // The server does not provide the address.
        (Arc::new(ClientIp::peer()), nobody(), &[500, 500]),
    ];
    for (row, (key, requests, expected)) in rows.into_iter().enumerate() {
        let layer = RateLimitLayer::new(limiter(Quota::per_hour(1)).0, key);
        assert_eq!(sent(&layer.layer(service_fn(hello)), requests).await, expected, "row {row}");
    }
}

#[test]
fn several_header_lines_are_invalid_and_an_empty_one_is_absent() {
    let key = HeaderKey::new(API_KEY);
    let missing = |request: &Request<Body>| key.find(head(request)).unwrap_err();
    assert!(matches!(missing(&of_api_key("")), MissingKey::Absent(_)));
    assert!(matches!(missing(&Request::new(Body::default())), MissingKey::Absent(_)));
    let two = with(of_api_key("one"), "x-api-key", "two");
    assert!(matches!(missing(&two), MissingKey::Invalid(_)));
}

fn accepts<const N: usize>(rules: [Rule; N]) -> bool {
    catch_unwind(AssertUnwindSafe(|| RateLimitLayer::all(rules))).is_ok()
}

/// Whether a layer may count by a key alone, and beside one that clients choose.
#[test]
fn a_key_that_clients_choose_needs_one_of_the_clients_own() {
    let chosen = || HeaderKey::new(API_KEY);
    let verified = || HeaderKey::new(HeaderName::from_static("x-user")).assume_verified();
    let path = || key_fn(|head| Some(head.path().into()));
    let rows: [(bool, Arc<dyn KeyExtractor>); 13] = [
        (false, Arc::new(chosen().or_reject())),
        (false, Arc::new(chosen().secret().or_reject())),
        (false, Arc::new(chosen().or_reject().secret())),
        (false, Arc::new(chosen().or_shared())),
        (false, Arc::new(chosen().or(ClientIp::peer()))),
        (false, Arc::new(verified().or_try(chosen()).or_reject())),
        (false, Arc::new((ClientIp::peer(), chosen().or_reject()))),
        // A closure counts as chosen by the client unless it says otherwise.
        (false, Arc::new(path().or_reject())),
        (false, Arc::new((path().or_reject(), ClientIp::peer()))),
        (true, Arc::new(path().assume_verified().or_reject())),
        (true, Arc::new(path().or_reject().assume_verified())),
        (true, Arc::new(verified().or_reject())),
        (true, Arc::new(ClientIp::peer())),
    ];
    for (row, (is_accepted, key)) in rows.into_iter().enumerate() {
        let is_chosen = matches!(key.source(), KeySource::Chosen | KeySource::Partly);
        let accepted = accepts([Rule::new(hourly("alone", 1), key)]);
        assert_eq!((accepted, is_chosen), (is_accepted, !is_accepted), "alone, row {row}");
    }
    let rows: [(bool, Mode, Arc<dyn KeyExtractor>); 10] = [
        (true, Mode::ENFORCE, Arc::new(ClientIp::peer())),
        (true, Mode::ENFORCE, Arc::new(verified().or_reject())),
        (true, Mode::ENFORCE, Arc::new(verified().or(ClientIp::peer()))),
        (false, Mode::SHADOW, Arc::new(ClientIp::peer())),
        (false, Mode::ENFORCE, Arc::new(path().or_reject())),
        // A key that many share is nobody's own.
        (false, Mode::ENFORCE, Arc::new(path().shared().or_reject())),
        (false, Mode::ENFORCE, Arc::new(FixedKey::new("all"))),
        (false, Mode::ENFORCE, Arc::new(verified().or_shared())),
        // A request can skip it.
        (false, Mode::ENFORCE, Arc::new(verified().or_skip())),
        (false, Mode::ENFORCE, Arc::new((verified().or_skip(), ClientIp::peer()))),
    ];
    for (row, (is_accepted, mode, key)) in rows.into_iter().enumerate() {
        let chosen = Rule::new(hourly("chosen", 1), chosen().or_skip());
        let beside = Rule::new(hourly("beside", 1), key).with_mode(mode);
        assert_eq!(accepts([chosen, beside]), is_accepted, "beside, row {row}");
    }
}

#[tokio::test]
async fn a_thousand_invented_api_keys_from_one_address_are_limited() {
    let by_key = Rule::new(hourly("key", 5), HeaderKey::new(API_KEY).or_skip());
    let layer = RateLimitLayer::all([by_key, by_address(hourly("address", 20))]);
    let invented = (0..1_000).map(|it| of_api_key(&it.to_string()));
    let statuses = sent(&layer.layer(service_fn(hello)), invented).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20);
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
        let request = request();
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
    let request = with(request_to("/search?q=1"), "x-api-key", "sk-1234");
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
    let layer = RateLimitLayer::new(hourly("route", 1), MatchedPathKey);
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .route("/files/{id}", get(|| async { "file" }))
        .layer(layer);
    assert_eq!(routed(&app, ["/users/1", "/users/2", "/files/1"]).await, [200, 429, 200]);
}

/// An authentication layer would insert it.
#[derive(Clone)]
struct ApiKey(u64);

#[tokio::test]
async fn equal_keys_of_two_extractors_are_two_keys() {
    let with = |key: Option<u64>, user: Option<u64>| {
        let mut request = request();
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
