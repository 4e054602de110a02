//! What is decided while the store can't decide, and which events report it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use limiter_core::{Cost, Error, ErrorKind, Key, Limiter as _, OnStoreFailure, Source};
use limiter_redis::{Builder, ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{
    log::Log,
    server::{Cluster, Sentinels, Server},
};
use tokio::time::sleep;

use crate::{GIVE_UP_AFTER, builder, connect_here, faults::recover, shared};

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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fallback_decides_by_its_share_and_knows_what_the_server_has_admitted() {
    let (limiter, server) = stopped(builder(9)).await;
    server.resume();
    let limiter = shared(&limiter, 4);
    let key = &Key::from("key");
    // A share of two, of which one is charged and one comes back.
    assert_eq!(limiter.check(key).await.unwrap().source(), Source::State);
    let reserved = limiter.reserve(key, Cost::ONE, Duration::ZERO).await.unwrap();
    assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 1);
    server.pause();
    let check = async |key: &Key<'_>| {
        let decision = limiter.check(key).await.unwrap();
        assert_eq!((decision.source(), decision.burst()), (Source::Local, 2));
        decision.is_admitted()
    };
    assert!(check(key).await && !check(key).await);
    let other = &Key::from("other");
    let reserved = limiter.reserve(other, Cost::of(2), Duration::ZERO).await.unwrap();
    assert_eq!((reserved.permits(), limiter.peek(other).await.unwrap().used()), (2, 2));
    assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 2);
    let taken = limiter.take_up_to(other, Cost::of(9)).await.unwrap();
    assert_eq!((taken.permits(), taken.decision().source()), (2, Source::Local));
    assert!(!check(other).await);
    assert!(limiter.reset(other).await.is_err());
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

/// Once a service whose server was never there limited nothing, and only the cause was logged.
#[tokio::test]
async fn the_first_failure_is_logged_with_its_consequence_once() {
    let mut server = Server::start();
    server.kill();
    let log = Log::start();
    let limiter = builder(1_000).build_on(connect_here(&server.url()).await).unwrap();
    let (limiter, key) = (shared(&limiter, 4), &Key::from("key"));
    for _ in 0..5 {
        let _ = limiter.check(key).await.unwrap();
        let _ = limiter.reserve(key, Cost::ONE, Duration::ZERO).await.unwrap();
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let consequence = "requests get errors, or are decided without it";
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
        // A busy machine may leave a check no time before the outage has a cause, which is another line.
        let is_busy = |line: &&String| line.contains("no time was left");
        let count = |level: &str| {
            let lines = log.lines();
            lines.iter().filter(|line| line.starts_with(level) && !is_busy(line)).count()
        };
        assert_eq!((count("WARN"), count("INFO")), (1, 0), "{:#?}", log.lines());
        servers.iter().for_each(|server| server.resume());
        let _ = recover(&limiter).await;
        assert_eq!((count("WARN"), count("INFO")), (1, 1), "{:#?}", log.lines());
    }
}

#[tokio::test]
async fn a_breaker_opens_after_the_time_of_silence_that_was_set() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ConnectOptions::new().with_silence(Duration::from_millis(700));
    let connection = connect_with(&format!("redis://{nobody}"), &options).await.unwrap();
    let limiter = builder(1).build_on(connection).unwrap();
    let start = Instant::now();
    while limiter.counters().breaker_opened == 0 {
        assert!(limiter.peek("key").await.is_err());
        assert!(start.elapsed() < GIVE_UP_AFTER);
        sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= Duration::from_millis(700));
}
