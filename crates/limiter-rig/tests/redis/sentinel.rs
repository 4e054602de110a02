//! With sentinels: a primary that dies or steps down is followed to the next.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::server::{Sentinels, Server};
use tokio::{task::yield_now, time::sleep};

use crate::{faults::recover, limiter, patient, timely};

/// Waits until the sentinels name another primary than `old`, and returns when that was.
async fn another_primary(set: &Sentinels, old: u16) -> Instant {
    let start = Instant::now();
    while set.primary().is_none_or(|primary| primary == old) {
        assert!(start.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(2)).await;
    }
    Instant::now()
}

/// Shows that checks work soon after the sentinels name another primary than `old`.
pub(crate) async fn follows(set: &Sentinels, limiter: &RedisLimiter, old: u16) {
    let start = Instant::now();
    let found = async {
        // No check hangs meanwhile, as `recover` asserts.
        let (_, took) = recover(limiter).await;
        start + took
    };
    let (promoted, found) = tokio::join!(another_primary(set, old), found);
    let late = found.saturating_duration_since(promoted);
    let promoted = promoted - start;
    println!("the sentinels told the new primary after {promoted:?}, checks worked {late:?} later");
    assert!(late < Duration::from_secs(2), "found only {late:?} later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_is_left_for_the_replica_in_its_place() {
    timely(async || {
        let set = Sentinels::start();
        let limiter = limiter(&set.url(), 1_000).await;
        let _ = recover(&limiter).await;
        set.server(0).pause();
        follows(&set, &limiter, set.server(0).port()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_followed_to_the_replica_in_its_place() {
    timely(async || {
        let mut set = Sentinels::start();
        let old = set.server(0).port();
        let limiter = limiter(&set.url(), 1_000).await;
        let (first, _) = recover(&limiter).await;
        assert!(first.is_admitted());
        while set.server(1).command(&["EXISTS", "limiter:{skey}:test:gcra"]).unwrap() != ":1" {
            sleep(Duration::from_millis(2)).await;
        }

        set.server_mut(0).kill();
        follows(&set, &limiter, old).await;
        // What was charged before had been replicated.
        let remaining = recover(&limiter).await.0.remaining();
        assert!(remaining <= 997, "{remaining}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_steps_down_is_left() {
    timely(async || {
        let set = Sentinels::start();
        let old = set.server(0).port();
        let limiter = limiter(&set.url(), 1_000).await;
        let _ = recover(&limiter).await;

        set.sentinel(0).command(&["SENTINEL", "FAILOVER", Sentinels::NAME]).unwrap();
        another_primary(&set, old).await;
        let _ = recover(&limiter).await;
        let role = set.server(1).command(&["ROLE"]).unwrap();
        assert!(role.contains("master"), "{role}");
    })
    .await;
}

/// A primary that the sentinels replace on command takes writes until they demote it, seconds later. Those
/// are lost, so it is left as soon as they name another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_on_command_loses_the_charges_of_a_second_at_most() {
    timely(async || {
        const TASKS: u64 = 16;
        const LIMIT: u64 = 10_000_000;
        let set = Sentinels::start();
        // Hardly anything recovers during the test.
        let policy = Policy::gcra("test", Quota::new(LIMIT, Quota::MAX_WINDOW).unwrap());
        let limiter = async |url: &str| {
            let builder = RedisLimiter::builder(policy.clone());
            builder.deadline(Duration::from_secs(1)).connect(url).await.unwrap()
        };
        let (limiter, limiter_of_new) =
            (limiter(&set.url()).await, limiter(&set.server(1).url()).await);
        let _ = recover(&limiter).await;

        let over = AtomicBool::new(false);
        let seconds: Vec<AtomicU64> = (0..60).map(|_| AtomicU64::new(0)).collect();
        let start = Instant::now();
        let second = |start: Instant| &seconds[usize::try_from(start.elapsed().as_secs()).unwrap()];
        let checks = join_all((0..TASKS).map(async |_| {
            while !over.load(Relaxed) {
                match limiter.check("key").await {
                    Ok(_) => _ = second(start).fetch_add(1, Relaxed),
                    Err(_) => yield_now().await,
                }
            }
        }));
        let fail_over = async {
            sleep(Duration::from_secs(2)).await;
            set.sentinel(0).command(&["SENTINEL", "FAILOVER", Sentinels::NAME]).unwrap();
            // Until then, the old primary takes writes.
            while !set.server(0).command(&["ROLE"]).unwrap().contains("slave") {
                assert!(start.elapsed() < Duration::from_secs(50));
                sleep(Duration::from_millis(10)).await;
            }
            over.store(true, Relaxed);
        };
        tokio::join!(checks, fail_over);

        let seconds: Vec<u64> = seconds.into_iter().map(AtomicU64::into_inner).collect();
        let admitted: u64 = seconds.iter().sum();
        let charged = limiter_of_new.peek("key").await.unwrap().used();
        let lost = admitted.saturating_sub(charged);
        let most = seconds.iter().max().unwrap();
        println!("{lost} of {admitted} charges were lost; {most} were the most in a second");
        assert!(lost <= most + TASKS, "{lost} were lost, {most} were the most in a second");
    })
    .await;
}

#[tokio::test]
async fn any_sentinel_of_the_address_will_do() {
    timely(async || {
        let set = Sentinels::start();
        let dead = set.sentinel(0);
        assert!(dead.command(&["SHUTDOWN", "NOSAVE"]).is_err(), "it ends without an answer");
        let limiter = patient(&set.url(), 1).await;
        assert!(recover(&limiter).await.0.is_admitted());
    })
    .await;
}

/// Once the last report of a dead sentinel kept a running process at the old primary, while a new process
/// connected to the new one.
#[tokio::test]
async fn the_report_of_a_dead_sentinel_does_not_count() {
    timely(async || {
        let set = Sentinels::start();
        let [dying, staying] = [0, 1].map(|index| set.sentinel(index));
        let (name, nodes) = (Sentinels::NAME, [dying.port(), staying.port()]);
        let url = format!("redis-sentinel://127.0.0.1:{}?sentinelServiceName={name}", nodes[0]);
        let limiter = limiter(&format!("{url}&node=127.0.0.1:{}", nodes[1]), 1_000).await;
        let _ = recover(&limiter).await;

        for sentinel in [dying, set.sentinel(2)] {
            assert!(
                sentinel.command(&["SHUTDOWN", "NOSAVE"]).is_err(),
                "it ends without an answer"
            );
        }
        let new = Server::start();
        staying.command(&["SENTINEL", "REMOVE", name]).unwrap();
        let port = new.port().to_string();
        staying.command(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "1"]).unwrap();
        let start = Instant::now();
        while new.command(&["EXISTS", "limiter:{skey}:test:gcra"]).unwrap() != ":1" {
            assert!(start.elapsed() < Duration::from_secs(10), "the old primary is still used");
            let _ = limiter.check("key").await;
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn sentinels_may_ask_for_a_password_of_their_own() {
    timely(async || {
        let set = Sentinels::start();
        for index in 0..3 {
            let words = ["ACL", "SETUSER", "watcher", "on", ">secret", "~*", "&*", "+@all"];
            set.sentinel(index).command(&words).unwrap();
            set.sentinel(index).command(&["ACL", "SETUSER", "default", "off"]).unwrap();
        }
        let policy = Policy::gcra("test", Quota::per_day(1));
        let options = ConnectOptions::new().with_sentinel_credentials("watcher", "secret");
        let client = connect_with(&set.url(), &options).await.unwrap();
        let admitted = RedisLimiter::builder(policy).deadline(Duration::from_secs(5));
        let admitted = admitted.build_on(client).unwrap();
        assert!(recover(&admitted).await.0.is_admitted());

        let locked_out = limiter(&set.url(), 1).await;
        let error = locked_out.check("key").await.unwrap_err();
        assert!(error.to_string().contains("not connected"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    })
    .await;
}
