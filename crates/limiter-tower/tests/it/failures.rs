//! A store that fails: the setting is applied, and each change is logged once.

use std::collections::BTreeSet;

use limiter_core::Fallback;

use crate::*;

#[tokio::test]
async fn an_error_that_is_no_failure_of_the_store_forwards_nothing() {
    // Such as a secret key, for a store that has no secret to hide it with.
    let rule = by_address(returning(Err(ErrorKind::InvalidSetting)));
    let service = layer_of([rule.on_store_failure(OnStoreFailure::Allow)]);
    let response = send(&service.layer(service_fn(hello)), request()).await;
    assert_eq!(response.status(), 500);
    assert_eq!(header(response.headers(), "retry-after"), None);
}

#[tokio::test]
async fn a_decision_without_a_state_has_no_fields() {
    let (usage, wait) = (Usage::new(10, 0, Duration::from_secs(6)), Some(Duration::from_secs(6)));
    for (decision, source, status, has_fields) in [
        (Decision::refused(usage, wait), Source::Local, 429, true),
        (Decision::admitted(usage), Source::FullTable, 200, false),
        (Decision::refused(usage, wait), Source::FullTable, 429, true),
    ] {
        // The setting for errors does not apply to decisions.
        let rule = by_address(returning(Ok(decision.with_source(source))));
        let layer = layer_of([rule.on_store_failure(OnStoreFailure::Allow)]);
        let response = send(&layer.layer(service_fn(hello)), request()).await;
        assert_eq!(response.status(), status, "{decision:?}");
        assert_eq!(header(response.headers(), "ratelimit").is_some(), has_fields, "{decision:?}");
    }
}

/// Without a jitter, all keys of a flood would return at the moment at which one slot is free.
#[tokio::test]
async fn refusals_by_a_full_table_name_waits_that_are_spread() {
    let policy = Policy::gcra("default", Quota::per_hour(1));
    let limiter = MemoryLimiter::builder(policy).capacity(1).build().unwrap();
    let service = per_address(limiter).layer(service_fn(hello));
    let mut waits = BTreeSet::new();
    for client in 0..100 {
        let response = send(&service, request_from(&format!("192.0.2.{client}"))).await;
        let wait = header(response.headers(), "retry-after").map(str::parse::<u64>);
        waits.extend(wait.map(Result::unwrap));
    }
    assert!(waits.iter().all(|wait| (3_600..=7_200).contains(wait)), "{waits:?}");
    assert!(waits.len() > 50, "{waits:?}");
}

#[tokio::test]
async fn a_store_that_fails_intermittently_is_logged_once_an_outage() {
    let (log, store) = (Log::start(), Deferred::new(hourly("default", 100)));
    let service = per_address(store.clone()).layer(service_fn(hello));
    for round in 0..100 {
        let fails = round % 2 == 0;
        store.set_failing(fails);
        let response = send(&service, request()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(header(response.headers(), "ratelimit").is_none(), fails);
    }
    // The end of the outage depends on time; `watch` has a test of it.
    let begun = "WARN limiter_tower: rate limit store failed: no connection \
                 policy=\"default\" then=Allow";
    assert_eq!(log.lines(), [begun]);
}

#[tokio::test]
async fn a_missing_address_is_logged_once_with_the_remedy() {
    let log = Log::start();
    let service = layer().0.layer(service_fn(hello));
    for _ in 0..100 {
        send(&service, Request::new(Body::default())).await;
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("ERROR"), "{lines:?}");
    assert!(lines[0].contains("into_make_service_with_connect_info::<SocketAddr>()"), "{lines:?}");
}

/// The fast path took only results that were ready from the start, and charged again for the others: here the share of
/// the fallback has no room for the cost, so that the limiter's future has to be polled.
#[tokio::test]
async fn a_request_is_charged_once_by_a_limiter_in_memory_whose_future_has_to_be_polled() {
    let limiter = hourly("default", 10);
    let fallback = Fallback::new(limiter.clone()).with(hourly("default", 1));
    let service = layer_of([for_all(fallback).cost(|_| Cost::of(2))]).layer(service_fn(hello));
    assert_eq!(send(&service, request()).await.status(), 200);
    assert_eq!(limiter.peek("all").remaining(), 8);
}
