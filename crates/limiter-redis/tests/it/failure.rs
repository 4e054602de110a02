//! What is decided while the store can't decide, and what is told of it.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use limiter_core::{Cost, ErrorKind, Source};
use limiter_redis::{FailurePolicy, RedisLimiter};
use limiter_test::{log::Log, server::Server};
use tokio::time::sleep;

use crate::{faults::recover, limiter};

/// Returns a limiter of `limit` permits that has taken one of them, and its server, stopped.
async fn stopped(limit: u64, policy: FailurePolicy) -> (RedisLimiter, Server) {
    let server = Server::start();
    let limiter = limiter(&server.url(), limit).await.with_failure_policy(policy).unwrap();
    let start = Instant::now();
    while limiter.try_acquire("key", Cost::ONE).await.unwrap().source() != Source::Store {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    server.pause();
    (limiter, server)
}

fn among(processes: u32) -> FailurePolicy {
    FailurePolicy::Local { processes: NonZeroU32::new(processes).unwrap() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_admitted_or_refused_alike() {
    for (policy, admitted) in [(FailurePolicy::Allow, true), (FailurePolicy::Deny, false)] {
        let (limiter, _server) = stopped(3, policy).await;
        for _ in 0..20 {
            let decision = limiter.try_acquire("key", Cost::ONE).await.unwrap();
            assert_eq!((decision.is_admitted(), decision.source()), (admitted, Source::Failure));
            let reserved = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
            assert_eq!(reserved.decision().is_admitted(), admitted);
            if let Some(receipt) = reserved.into_receipt() {
                limiter.refund(receipt).await.unwrap();
            }
        }
        // There is nothing to look at, and nothing to do for later.
        assert!(limiter.peek("key").await.is_err());
        assert!(limiter.reset("key").await.is_err());
        let counted = limiter.counters();
        let (allowed, denied) = (counted.fallback_allow, counted.fallback_deny);
        assert_eq!((allowed, denied), if admitted { (40, 0) } else { (0, 40) });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_reported_unless_something_else_is_chosen() {
    let (limiter, _server) = stopped(3, FailurePolicy::Report).await;
    let error = limiter.try_acquire("key", Cost::ONE).await.unwrap_err();
    assert!(error.to_string().starts_with("policy \"test\": "), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_limiter_in_memory_gives_out_its_share_and_no_more() {
    // A share of two, of which one is taken already.
    let (limiter, _server) = stopped(9, among(4)).await;
    let check = async |key: &str| {
        let decision = limiter.try_acquire(key, Cost::ONE).await.unwrap();
        assert_eq!((decision.source(), decision.limit()), (Source::Local, 2));
        decision.is_admitted()
    };
    assert!(check("key").await);
    assert!(!check("key").await);
    assert!(check("another").await && check("another").await && !check("another").await);
    let reserved = limiter.reserve("third", Cost::ONE, Duration::ZERO).await.unwrap();
    assert_eq!(limiter.peek("third").await.unwrap().used(), 1);
    limiter.refund(reserved.into_receipt().unwrap()).await.unwrap();
    assert_eq!(limiter.peek("third").await.unwrap().used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_more_than_the_share_uses_up_all_of_it() {
    let server = Server::start();
    let limiter = limiter(&server.url(), 40).await.with_failure_policy(among(4)).unwrap();
    let start = Instant::now();
    let (most, few) = (Cost::new(30).unwrap(), Cost::new(4).unwrap());
    for (key, cost, calls) in [("most", most, 1), ("few", few, 3)] {
        let mut admitted = 0;
        while admitted < calls {
            let decision = limiter.try_acquire(key, cost).await.unwrap();
            if decision.source() == Source::Store {
                assert!(decision.is_admitted());
                admitted += 1;
            }
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
    server.pause();
    for key in ["most", "few"] {
        let decision = limiter.try_acquire(key, Cost::ONE).await.unwrap();
        assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Local), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_back_before_an_outage_is_not_charged_in_it() {
    let server = Server::start();
    let limiter = limiter(&server.url(), 8).await.with_failure_policy(among(8)).unwrap();
    // Scripts are sent in it, for the first time.
    let limiter = limiter.with_deadline(Duration::from_secs(1)).unwrap();
    let key = "key";
    let start = Instant::now();
    let receipt = loop {
        let reserved = limiter.reserve(key, Cost::ONE, Duration::ZERO).await.unwrap();
        if reserved.decision().source() == Source::Store {
            break reserved.into_receipt().unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    };
    limiter.refund(receipt).await.unwrap();
    limiter.reset("other").await.unwrap();
    server.pause();
    let decision = limiter.try_acquire(key, Cost::ONE).await.unwrap();
    assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Local));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_noticed_once_and_ends_with_the_first_probe_that_succeeds() {
    let log = Log::start();
    let server = Server::start();
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = Arc::clone(&told);
    let limiter = limiter(&server.url(), 1_000_000).await;
    let limiter =
        limiter.with_observer(move |event| observer.lock().unwrap().push(event.name())).unwrap();
    let _ = recover(&limiter).await;
    server.pause();
    let stopped = Instant::now();
    // Open after five failures, one after the other; asked for by probes only from then on.
    while stopped.elapsed() < Duration::from_millis(900) {
        drop(limiter.try_acquire("key", Cost::ONE).await);
        sleep(Duration::from_millis(1)).await;
    }
    let during = limiter.counters();
    assert_eq!((during.breaker_opened, during.breaker_closed), (1, 0));
    assert!(during.not_asked > during.undetermined + during.unavailable, "{during:?}");
    let at_once = Instant::now();
    let error = limiter.try_acquire("key", Cost::ONE).await;
    if error.as_ref().is_err_and(|error| error.to_string().contains("not asked again for")) {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(at_once.elapsed() < Duration::from_millis(20));
    }

    server.resume();
    let _ = recover(&limiter).await;
    let start = Instant::now();
    while limiter.counters().breaker_closed == 0 {
        assert!(start.elapsed() < Duration::from_secs(10));
        drop(limiter.try_acquire("key", Cost::ONE).await);
    }
    let told = told.lock().unwrap();
    let count = |name| told.iter().filter(|told| **told == name).count();
    assert_eq!((count("breaker_opened"), count("breaker_closed")), (1, 1));
    assert_eq!(count("undetermined") as u64, limiter.counters().undetermined);
    let lines = log.lines();
    let transitions = lines.iter().filter(|line| line.contains("limiter_redis::events"));
    assert_eq!(transitions.count(), 2, "{lines:?}");
}
