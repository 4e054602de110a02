//! What is decided while the store can't decide, and which events report it.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Error, ErrorKind, OnStoreFailure, Source};
use limiter_redis::{Builder, RedisLimiter};
use limiter_rig::{
    log::Log,
    server::{Cluster, Sentinels, Server},
};
use tokio::time::sleep;

use crate::{GIVE_UP_AFTER, builder, connect_here, faults::recover};

/// Returns a limiter that has taken one permit, and its server, stopped.
async fn stopped(builder: Builder) -> (RedisLimiter, Server) {
    let server = Server::start();
    // Long enough for a reply on a busy machine, and short enough to wait for five times without a reply.
    let builder = builder.deadline(Duration::from_secs(1));
    let limiter = builder.connect(&server.url()).await.unwrap();
    assert_eq!(limiter.check("key").await.unwrap().source(), Source::State);
    server.pause();
    (limiter, server)
}

fn among(processes: u32) -> NonZeroU32 {
    NonZeroU32::new(processes).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_share_each_operation_returns_the_error() {
    let (limiter, _server) = stopped(builder(3)).await;
    let none_decided = |error: Error| {
        assert!(error.to_string().starts_with("policy \"test\": "), "{error}");
        // The caller chooses what follows.
        assert!(OnStoreFailure::Allow.admits(&error) && !OnStoreFailure::Deny.admits(&error));
    };
    for _ in 0..20 {
        none_decided(limiter.check("key").await.unwrap_err());
        none_decided(limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap_err());
        none_decided(limiter.take_up_to("key", Cost::of(5)).await.unwrap_err());
        none_decided(limiter.charge("key", Cost::of(5)).await.unwrap_err());
    }
    none_decided(limiter.peek("key").await.unwrap_err());
    none_decided(limiter.reset("key").await.unwrap_err());
    assert_eq!(limiter.counters().decided_locally, 0);
}

/// There is nothing to do for later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_returns_the_error_whatever_decides_checks() {
    let (limiter, _server) = stopped(builder(3).local_share(among(1))).await;
    assert!(limiter.reset("key").await.is_err());
    assert!(limiter.check("key").await.unwrap().is_admitted());
    assert_eq!(limiter.counters().decided_locally, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_limiter_in_memory_gives_out_its_share_and_no_more() {
    // A share of two, of which one is taken already.
    let (limiter, _server) = stopped(builder(9).local_share(among(4))).await;
    let check = async |key: &str| {
        let decision = limiter.check(key).await.unwrap();
        assert_eq!((decision.source(), decision.burst()), (Source::Local, 2));
        decision.is_admitted()
    };
    assert!(check("key").await);
    assert!(!check("key").await);
    assert!(check("another").await && check("another").await && !check("another").await);
    let reserved = limiter.reserve("third", Cost::of(2), Duration::ZERO).await.unwrap();
    assert_eq!(limiter.peek("third").await.unwrap().used(), 2);
    assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 2);
    assert_eq!(limiter.peek("third").await.unwrap().used(), 0);
    let taken = limiter.take_up_to("fourth", Cost::of(9)).await.unwrap();
    assert_eq!((taken.permits(), taken.decision().source()), (2, Source::Local));
    let charged = limiter.charge("fourth", Cost::of(3)).await.unwrap();
    // The share's burst and horizon are two permits each.
    assert_eq!((charged.permits(), charged.decision().source()), (2, Source::Local));
    assert!(!check("fourth").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_more_than_the_share_uses_up_all_of_it() {
    let server = Server::start();
    let limiter = builder(40).local_share(among(4)).deadline(Duration::from_secs(2));
    let limiter = limiter.connect(&server.url()).await.unwrap();
    let (most, few) = (Cost::new(30).unwrap(), Cost::new(4).unwrap());
    for (key, cost, calls) in [("most", most, 1), ("few", few, 3)] {
        for _ in 0..calls {
            let decision = limiter.check_n(key, cost).await.unwrap();
            assert_eq!((decision.is_admitted(), decision.source()), (true, Source::State));
        }
    }
    for _ in 0..3 {
        // More than the share, in any case.
        let charged = limiter.charge("charged", few).await.unwrap();
        let taken = limiter.take_up_to("taken", few).await.unwrap();
        for taken in [charged, taken] {
            assert_eq!((taken.permits(), taken.decision().source()), (4, Source::State));
        }
    }
    server.pause();
    let keys = ["most", "few", "charged", "taken"];
    for (key, decision) in keys.iter().zip(join_all(keys.map(|key| limiter.check(key))).await) {
        let decision = decision.unwrap();
        assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Local), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_back_before_an_outage_is_not_charged_in_it() {
    let server = Server::start();
    let limiter = builder(16).local_share(among(8));
    // Scripts are sent in it, for the first time.
    let limiter = limiter.deadline(Duration::from_secs(1)).connect(&server.url()).await.unwrap();
    let key = "key";
    let start = Instant::now();
    let receipt = async || loop {
        let reserved = limiter.reserve(key, Cost::of(2), Duration::ZERO).await.unwrap();
        if reserved.decision().source() == Source::State {
            break reserved.into_receipt().unwrap();
        }
        assert!(start.elapsed() < GIVE_UP_AFTER);
    };
    assert_eq!(limiter.refund(receipt().await).await.unwrap(), 2);
    limiter.reset("other").await.unwrap();
    server.pause();
    for admitted in [true, true, false] {
        let decision = limiter.check(key).await.unwrap();
        assert_eq!((decision.is_admitted(), decision.source()), (admitted, Source::Local));
    }
}

// On one thread, because the log is captured by thread.
#[tokio::test]
async fn an_outage_is_noticed_once_and_ends_with_the_first_probe_that_succeeds() {
    let log = Log::start();
    let server = Server::start();
    let events = Arc::new(Mutex::new(Vec::new()));
    let observer = Arc::clone(&events);
    let limiter = builder(1_000_000).deadline(Duration::from_millis(500));
    let limiter = limiter.observer(move |event| {
        assert_eq!((event.policy(), event.node()), ("test", None));
        observer.lock().unwrap().push(event.name());
    });
    let limiter = limiter.build_on(connect_here(&server.url()).await).unwrap();
    let _ = recover(&limiter).await;
    server.pause();
    // Open after five failures, one after the other; asked for by probes only from then on.
    let (mut kinds, start) = (Vec::new(), Instant::now());
    while kinds.len() < 100 {
        assert!(start.elapsed() < GIVE_UP_AFTER, "the breaker stays closed");
        let error = limiter.check("key").await.unwrap_err();
        if error.to_string().contains("is not called") {
            kinds.push(error.kind());
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(kinds, [ErrorKind::Unavailable; 100]);
    let during = limiter.counters();
    assert_eq!((during.breaker_opened, during.breaker_closed), (1, 0));
    assert!(during.short_circuited > during.undetermined + during.unavailable, "{during:?}");

    server.resume();
    let _ = recover(&limiter).await;
    let start = Instant::now();
    while limiter.counters().breaker_closed == 0 {
        assert!(start.elapsed() < GIVE_UP_AFTER);
        drop(limiter.check("key").await);
    }
    let counters = limiter.counters();
    let count = |name| events.lock().unwrap().iter().filter(|event| **event == name).count() as u64;
    // The observer has a thread of its own.
    while count("breaker_closed") == 0 || count("undetermined") < counters.undetermined {
        assert!(start.elapsed() < GIVE_UP_AFTER);
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((count("breaker_opened"), count("breaker_closed")), (1, 1));
    let lines = log.lines();
    let transitions = lines.iter().filter(|line| line.contains("limiter_redis::outage_log"));
    assert_eq!(transitions.count(), 2, "{lines:?}");
}

/// The number of processes changes while they run, for example by autoscaling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_processes_is_set_live() {
    let (limiter, _server) = stopped(builder(12).local_share(among(4))).await;
    let premium = limiter.with_policy(&crate::daily(120)).unwrap();
    let limit = async |limiter: &RedisLimiter| {
        let decision = limiter.check("other").await.unwrap();
        assert_eq!(decision.source(), Source::Local);
        decision.burst()
    };
    assert_eq!((limit(&limiter).await, limit(&premium).await), (3, 30));
    limiter.set_processes(NonZeroU32::new(2).unwrap());
    assert_eq!((limit(&limiter).await, limit(&premium).await), (6, 60));
    // What was charged before stays charged.
    assert!(limiter.peek("other").await.unwrap().used() > 0);
}

/// Once a service whose server was never there limited nothing, and only the cause was logged.
#[tokio::test]
async fn the_first_failure_is_logged_with_its_consequence_once() {
    let mut server = Server::start();
    server.kill();
    let log = Log::start();
    let limiter = builder(1_000).local_share(among(4));
    let limiter = limiter.build_on(connect_here(&server.url()).await).unwrap();
    for _ in 0..5 {
        let _ = limiter.check("key").await.unwrap();
        let _ = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let consequence = "checks are decided in this process's memory";
    for part in [consequence, "WARN", "Connection refused", "policy=\"test\""] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
}

/// The servers accept connections, and do not reply for seconds.
#[tokio::test]
async fn a_slow_start_is_logged_once() {
    let cluster = Cluster::start();
    let set = Sentinels::start();
    let server = Server::start();
    for (url, servers) in [
        (server.url(), vec![&server]),
        (cluster.url(), (0..3).map(|node| cluster.node(node)).collect()),
        (set.url(), (0..3).map(|sentinel| set.sentinel(sentinel)).chain([set.server(0)]).collect()),
    ] {
        servers.iter().for_each(|server| server.pause());
        let log = Log::start();
        let limiter = builder(1_000).build_on(connect_here(&url).await).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            let _ = limiter.check("key").await;
            sleep(Duration::from_millis(5)).await;
        }
        let count = |level: &str| log.lines().iter().filter(|line| line.starts_with(level)).count();
        assert_eq!((count("WARN"), count("INFO")), (1, 0), "{:#?}", log.lines());
        servers.iter().for_each(|server| server.resume());
        let _ = recover(&limiter).await;
        assert_eq!((count("WARN"), count("INFO")), (1, 1), "{:#?}", log.lines());
    }
}
