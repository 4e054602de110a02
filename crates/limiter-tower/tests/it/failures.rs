//! A store that fails: the setting is applied, and each change is logged once.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use limiter_core::{
    Cost, Decision, Error, ErrorKind, Fallback, Limiter, LimiterFuture, MemoryLimiter, Policy,
    Quota, Source, Usage,
};
use limiter_rig::log::Log;
use limiter_test::fake::Fake;
use limiter_tower::rule::OnStoreFailure;
use tower::{Layer, service_fn};

use crate::{
    by_address, for_all, header, hello, hourly, layer_of, per_address, request_from, send,
};

/// Returns a limiter whose store fails while the flag is set.
fn failing() -> (impl Limiter, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let limiter = Fake::new(policy, move || {
        LimiterFuture::ready(if failing.load(Ordering::Relaxed) {
            Err(Error::new(ErrorKind::Unavailable, "no connection"))
        } else {
            Ok(Decision::admitted(Usage::new(10, 9, Duration::from_secs(6))))
        })
    });
    (limiter, fails)
}

#[tokio::test]
async fn an_error_that_is_no_failure_of_the_store_forwards_nothing() {
    let policy = Policy::gcra("default", Quota::per_minute(10));
    // Such as a secret key, for a store that has no secret to hide it with.
    let limiter = Fake::new(policy, || {
        LimiterFuture::ready(Err(Error::new(ErrorKind::InvalidSetting, "no key secret")))
    });
    let service = layer_of([by_address(limiter).on_store_failure(OnStoreFailure::Allow)]);
    let service = service.layer(service_fn(hello));
    let response = send(&service, request_from("192.0.2.1")).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(header(response.headers(), "retry-after"), None);
}

#[tokio::test]
async fn a_decision_without_a_state_has_no_fields() {
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let (usage, wait) = (Usage::new(10, 0, Duration::from_secs(6)), Some(Duration::from_secs(6)));
    let rows = [
        (Decision::refused(usage, wait), Source::Local, StatusCode::TOO_MANY_REQUESTS, true),
        (Decision::admitted(usage), Source::FullTable, StatusCode::OK, false),
        (Decision::refused(usage, wait), Source::FullTable, StatusCode::TOO_MANY_REQUESTS, true),
    ];
    for (decision, source, status, has_fields) in rows {
        let decision = decision.with_source(source);
        let limiter = Fake::new(policy.clone(), move || LimiterFuture::ready(Ok(decision)));
        // The setting for errors does not apply to decisions.
        let layer = layer_of([by_address(limiter).on_store_failure(OnStoreFailure::Allow)]);
        let response = send(&layer.layer(service_fn(hello)), request_from("192.0.2.1")).await;
        assert_eq!(response.status(), status);
        assert_eq!(header(response.headers(), "ratelimit").is_some(), has_fields);
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
    let log = Log::start();
    let (limiter, fails) = failing();
    let service = per_address(limiter).layer(service_fn(hello));
    for round in 0..100 {
        let has_failed = round % 2 == 0;
        fails.store(has_failed, Ordering::Relaxed);
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(response.headers(), "ratelimit").is_none(), has_failed);
    }
    // The end of the outage depends on time; `watch` has a test of it.
    let begun = "WARN limiter_tower: rate limit store failed: no connection \
                 policy=\"default\" then=Allow";
    assert_eq!(log.lines(), [begun]);
}

#[tokio::test]
async fn a_missing_address_is_logged_once_with_the_remedy() {
    let log = Log::start();
    let service = crate::layer().0.layer(service_fn(hello));
    for _ in 0..100 {
        send(&service, http::Request::new(crate::Body::default())).await;
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
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    assert_eq!(limiter.peek("all").remaining(), 8);
}
