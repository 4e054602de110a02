//! Roll-out and operation: shadows, samples, exemptions, the handle and the observer.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use http::{Method, Request};
use limiter_core::{ErrorKind, Policy, Quota};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer,
    key::{FixedKey, HeaderKey, KeyExtractor, Networks},
    observe::{Decisions, Outcome},
    rule::{Mode, OnStoreFailure},
};
use tower::{Layer, service_fn};

use crate::{Body, header, hello, limiter, limiter_of, per_address, request_from, send, statuses};

#[tokio::test]
async fn a_shadow_marks_its_refusals_and_shows_clients_nothing() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let service = per_address(limiter).mode(Mode::SHADOW).layer(service_fn(hello));
    for is_admitted in [true, false, false] {
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(header(response.headers(), "ratelimit"), None);
        assert_eq!(header(response.headers(), "ratelimit-policy"), None);
        let decisions = response.extensions().get::<Decisions>().unwrap();
        let decided = decisions.get("default").unwrap();
        assert!(decided.is_shadow());
        assert_eq!(decided.decision().is_admitted(), is_admitted);
    }
}

#[tokio::test]
async fn a_shadow_that_refuses_refunds_no_other_rule() {
    let (enforced, _) = limiter_of(Policy::gcra("enforced", Quota::per_hour(9)));
    let (shadow, _) = limiter_of(Policy::gcra("shadow", Quota::per_hour(1)));
    let service = per_address(enforced.clone())
        .and(shadow, ClientIp::peer(), OnMissing::Reject)
        .mode(Mode::SHADOW)
        .layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 200, 200]);
    assert_eq!(enforced.peek(Ipv4Addr::new(192, 0, 2, 1)).used(), 3);
}

#[tokio::test]
async fn a_sample_is_enforced_for_its_share_of_keys() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = per_address(limiter).mode(Mode::sample(30).unwrap());
    let service = layer.layer(service_fn(hello));
    let mut refused = 0;
    for last in 0..=255 {
        let address = format!("198.51.100.{last}");
        send(&service, request_from(&address)).await;
        let again = send(&service, request_from(&address)).await;
        refused += u32::from(again.status() == 429);
    }
    assert!((50..=105).contains(&refused), "{refused} of 256 addresses");
}

#[tokio::test]
async fn exempt_networks_paths_and_preflights_are_not_counted() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let office = Networks::parse(["203.0.113.0/24"]).unwrap();
    let client = ClientIp::peer();
    let service = per_address(limiter)
        .skip(move |head| {
            head.path() == "/health"
                || head.is_preflight()
                || client.address(head).is_ok_and(|address| office.contains(address))
        })
        .layer(service_fn(hello));
    let health = || {
        let mut request = request_from("192.0.2.1");
        *request.uri_mut() = "/health".parse().unwrap();
        request
    };
    let preflight = || {
        let mut request = request_from("192.0.2.1");
        *request.method_mut() = Method::OPTIONS;
        request.headers_mut().insert("origin", "https://example.com".parse().unwrap());
        let method = "access-control-request-method";
        request.headers_mut().insert(method, "POST".parse().unwrap());
        request
    };
    for _ in 0..5 {
        for request in [health(), preflight(), request_from("203.0.113.7")] {
            let response = send(&service, request).await;
            assert_eq!(response.status(), 200);
            assert_eq!(header(response.headers(), "ratelimit"), None);
        }
    }
    assert_eq!(statuses(&service, 2).await, [200, 429]);
}

#[tokio::test]
async fn a_shadow_rejects_no_request_without_a_key() {
    for mode in [Mode::SHADOW, Mode::sample(99).unwrap()] {
        let service = per_address(limiter(Quota::per_hour(1)).0).mode(mode);
        let service = service.layer(service_fn(hello));
        assert_eq!(send(&service, Request::new(Body::default())).await.status(), 200);
    }
}

#[test]
fn a_policy_does_not_take_the_name_of_another_rules() {
    let [a, b] = ["a", "b"].map(|name| limiter_of(Policy::gcra(name, Quota::per_hour(5))).0);
    let (_, handle) = per_address(a).and(b, FixedKey::new("all"), OnMissing::Reject).build();
    let taken = Policy::gcra("b", Quota::per_hour(20));
    let error = handle.rule("a").unwrap().set_policy(&taken).unwrap_err();
    assert_eq!(error.to_string(), "another rule has a policy or limit named \"b\"; rename one");
    handle.rule("b").unwrap().set_policy(&taken).unwrap();
    assert_eq!(handle.rules().map(|rule| rule.name().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn a_handle_changes_the_policy_and_keeps_debts() {
    let (limiter, _) = limiter(Quota::per_hour(2));
    let (layer, handle) = per_address(limiter).build();
    let service = layer.layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    let raised = Policy::gcra("raised", Quota::per_hour(4));
    handle.rule("default").unwrap().set_policy(&raised).unwrap();
    assert_eq!(handle.rule("default").unwrap().policy(), raised);
    let response = send(&service, request_from("192.0.2.1")).await;
    assert_eq!(header(response.headers(), "ratelimit-policy"), Some("\"raised\";q=4;w=3600"));
    assert_eq!(statuses(&service, 2).await, [200, 429]);

    let window = Policy::fixed_window("window", Quota::per_hour(1));
    let error = handle.rule("default").unwrap().set_policy(&window).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert_eq!(handle.rules().next().unwrap().policy(), raised);
    let error = handle.rule("raised").unwrap_err();
    assert_eq!(error.to_string(), "unknown rule \"raised\"; expected one of \"default\"");
}

#[tokio::test]
async fn a_handle_peeks_resets_and_switches_off() {
    let (limiter, _) = limiter(Quota::per_hour(2));
    let (layer, handle) = per_address(limiter).build();
    let service = layer.layer(service_fn(hello));
    let key = Ipv4Addr::new(192, 0, 2, 1).into();
    let rule = handle.rule("default").unwrap();
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    assert_eq!(rule.peek(&key).await.unwrap().remaining(), 0);
    rule.reset(&key).await.unwrap();
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);

    handle.switch_off();
    assert!(!handle.is_on());
    assert_eq!(statuses(&service, 3).await, [200, 200, 200]);
    handle.switch_on();
    assert_eq!(statuses(&service, 1).await, [429]);
    rule.set_mode(Mode::SHADOW).unwrap();
    assert_eq!(statuses(&service, 1).await, [200]);
    assert_eq!(rule.mode(), Mode::SHADOW);
}

#[tokio::test]
async fn a_configured_clone_leaves_the_original_as_it_was() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = per_address(limiter);
    let shadow = layer.clone().mode(Mode::SHADOW).layer(service_fn(hello));
    let (layer, handle) = layer.build();
    let service = layer.layer(service_fn(hello));
    assert_eq!(statuses(&shadow, 2).await, [200, 200]);
    assert_eq!(statuses(&service, 1).await, [429]);
    handle.switch_off();
    assert_eq!(statuses(&service, 1).await, [200]);
}

#[tokio::test]
async fn the_observer_sees_every_outcome_with_policy_and_store() {
    let (memory, _) = limiter_of(Policy::gcra("api", Quota::per_hour(1)));
    let deferred = Deferred::new(limiter_of(Policy::gcra("stored", Quota::per_hour(9))).0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let x_api_key = http::HeaderName::from_static("x-api-key");
    let layer = RateLimitLayer::new(memory, ClientIp::peer(), OnMissing::Reject)
        .and(deferred.clone(), HeaderKey::new(x_api_key).verified(), OnMissing::Allow)
        .skip(|head| head.path() == "/health")
        .observe(move |event| {
            let policy = event.policy.name().to_owned();
            sink.lock().unwrap().push((policy, event.store, event.outcome));
        });
    let (layer, handle) = layer.build();
    let service = layer.layer(service_fn(hello));
    let request = |path: &str, key: Option<&str>| {
        let mut request = request_from("192.0.2.1");
        *request.uri_mut() = path.parse().unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", key.parse().unwrap());
        }
        request
    };
    let set_mode = |mode| handle.rule("api").unwrap().set_mode(mode).unwrap();
    send(&service, request("/", Some("k"))).await;
    send(&service, request("/", Some("k"))).await;
    send(&service, request("/health", None)).await;
    set_mode(Mode::SHADOW);
    send(&service, request("/", None)).await;
    deferred.set_failing(true);
    send(&service, request("/", Some("k"))).await;
    set_mode(Mode::ENFORCE);
    send(&service, Request::new(Body::default())).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected = [
        ("api", "memory", Outcome::Allowed),
        ("stored", "other", Outcome::Allowed),
        ("api", "memory", Outcome::Denied),
        ("api", "memory", Outcome::Bypassed),
        ("stored", "other", Outcome::Bypassed),
        ("api", "memory", Outcome::ShadowDenied),
        ("stored", "other", Outcome::Bypassed),
        ("api", "memory", Outcome::ShadowDenied),
        ("stored", "other", Outcome::ErrorAllowed),
        ("api", "memory", Outcome::Rejected),
    ];
    let expected = expected.map(|(policy, store, outcome)| (policy.to_owned(), store, outcome));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_observer_sees_denials_by_a_failing_store_and_how_long_a_check_took() {
    let deferred = Deferred::new(limiter(Quota::per_hour(9)).0);
    deferred.set_failing(true);
    let seen = Arc::new(Mutex::new(None));
    let sink = Arc::clone(&seen);
    let service = RateLimitLayer::new(deferred, FixedKey::new("all"), OnMissing::Reject)
        .on_store_failure(OnStoreFailure::Deny)
        .observe(move |event| {
            let kind = event.error.map(limiter_core::Error::kind);
            *sink.lock().unwrap() = Some((event.outcome, kind, event.elapsed.is_some()));
        })
        .layer(service_fn(hello));
    assert_eq!(statuses(&service, 1).await, [503]);
    let expected = (Outcome::ErrorDenied, Some(ErrorKind::Unavailable), true);
    assert_eq!(*seen.lock().unwrap(), Some(expected));
}
