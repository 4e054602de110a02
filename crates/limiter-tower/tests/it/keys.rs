//! The key of a request.

use std::sync::Arc;

use http::{HeaderName, Request};
use limiter_core::{Key, Quota};
use limiter_tower::{
    FixedKey, HeaderKey, KeyExtractor, OnMissingKey, PeerAddress, RateLimitLayer, key_fn,
};
use tower::{Layer, service_fn};

use crate::{Body, hello, limiter, request_from, send};

/// Sends the requests one after another to a limit of one, and returns their statuses.
async fn admitted<K: KeyExtractor>(
    key: K,
    choice: OnMissingKey,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Vec<u16> {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = RateLimitLayer::new(limiter).with_key(key).on_missing_key(choice);
    let service = layer.layer(service_fn(hello));
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(send(&service, request).await.status().as_u16());
    }
    statuses
}

fn with_header(name: &'static str, value: &str) -> Request<Body> {
    Request::builder().header(name, value).body(Body::default()).unwrap()
}

#[tokio::test]
async fn addresses_are_counted_apart_and_ports_are_not() {
    let mut other_port = request_from("192.0.2.1");
    other_port.extensions_mut().insert(std::net::SocketAddr::from(([192, 0, 2, 1], 9)));
    let requests = [request_from("192.0.2.1"), request_from("192.0.2.2"), other_port];
    let statuses = admitted(PeerAddress::new(), OnMissingKey::Reject, requests).await;
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn an_address_mapped_into_ipv6_is_the_ipv4_address() {
    let requests = [request_from("192.0.2.1"), request_from("::ffff:192.0.2.1")];
    let statuses = admitted(PeerAddress::new(), OnMissingKey::Reject, requests).await;
    assert_eq!(statuses, [200, 429]);
}

#[tokio::test]
async fn addresses_of_one_ipv6_network_are_one_key() {
    let same = || [request_from("2001:db8:0:1::1"), request_from("2001:db8:0:1:ffff::2")];
    let neighbours = || [request_from("2001:db8:0:1::1"), request_from("2001:db8:0:2::1")];
    let wider = || PeerAddress::new().with_ipv6_prefix(56).unwrap();
    let exact = || PeerAddress::new().with_ipv6_prefix(128).unwrap();
    let reject = OnMissingKey::Reject;
    assert_eq!(admitted(PeerAddress::new(), reject, same()).await, [200, 429]);
    assert_eq!(admitted(PeerAddress::new(), reject, neighbours()).await, [200, 200]);
    assert_eq!(admitted(wider(), reject, neighbours()).await, [200, 429]);
    assert_eq!(admitted(exact(), reject, same()).await, [200, 200]);
}

#[test]
fn an_impossible_prefix_is_refused() {
    for bits in [0, 129] {
        let error = PeerAddress::new().with_ipv6_prefix(bits).unwrap_err();
        assert_eq!(error.to_string(), format!("an IPv6 prefix of {bits} bits: use 1 to 128"));
    }
}

#[tokio::test]
async fn a_forwarded_address_is_ignored() {
    let mut requests = [request_from("192.0.2.1"), request_from("192.0.2.1")];
    requests[0].headers_mut().insert("x-forwarded-for", "198.51.100.1".parse().unwrap());
    requests[1].headers_mut().insert("x-forwarded-for", "198.51.100.2".parse().unwrap());
    assert_eq!(admitted(PeerAddress::new(), OnMissingKey::Reject, requests).await, [200, 429]);
}

#[tokio::test]
async fn a_header_is_a_key() {
    let requests = ["one", "two", "one", "ONE"].map(|value| with_header("x-api-key", value));
    let key = HeaderKey::new(HeaderName::from_static("x-api-key"));
    assert_eq!(admitted(key, OnMissingKey::Reject, requests).await, [200, 200, 429, 200]);
}

#[tokio::test]
async fn a_fixed_key_counts_everyone() {
    let requests = [request_from("192.0.2.1"), request_from("192.0.2.2")];
    assert_eq!(admitted(FixedKey::new("all"), OnMissingKey::Reject, requests).await, [200, 429]);
}

#[tokio::test]
async fn a_closure_can_combine_and_own() {
    let key = key_fn(|request| {
        let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
        Some(Key::tuple([request.uri.path().into(), tenant.to_lowercase().into()]))
    });
    let requests = ["a", "b", "A"].map(|value| with_header("x-tenant", value));
    assert_eq!(admitted(key, OnMissingKey::Reject, requests).await, [200, 200, 429]);
}

#[tokio::test]
async fn a_missing_key_is_shared_allowed_or_rejected() {
    let keyless = || (0..2).map(|_| Request::new(Body::default()));
    let by_header = || HeaderKey::new(HeaderName::from_static("x-api-key"));
    let rows = [(OnMissingKey::Share, [200, 429]), (OnMissingKey::Allow, [200, 200])];
    for (choice, statuses) in rows {
        assert_eq!(admitted(PeerAddress::new(), choice, keyless()).await, statuses);
        assert_eq!(admitted(by_header(), choice, keyless()).await, statuses);
    }
    let reject = OnMissingKey::Reject;
    assert_eq!(OnMissingKey::default(), OnMissingKey::Share);
    // A client error, and a server error.
    assert_eq!(admitted(by_header(), reject, keyless()).await, [400, 400]);
    assert_eq!(admitted(PeerAddress::new(), reject, keyless()).await, [500, 500]);
}

#[tokio::test]
async fn a_request_without_a_key_does_not_share_with_one_that_has() {
    let requests = ["one", "", ""].map(|value| with_header("x-api-key", value));
    let key: Arc<dyn KeyExtractor> = Arc::new(HeaderKey::new(HeaderName::from_static("x-api-key")));
    assert_eq!(admitted(key, OnMissingKey::Share, requests).await, [200, 200, 429]);
}
