//! With sentinels: a primary that dies or steps down is followed to the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use futures::future::join_all;
use limiter_core::{Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::server::{Sentinels, Server};
use tokio::task::yield_now;

use crate::{PATIENT, eventually, limiter, patient, recover};

/// Waits until the sentinels name another primary than `old`.
async fn another_primary(set: &Sentinels, old: u16) {
    let is_so = async || set.primary().is_some_and(|primary| primary != old);
    eventually("the sentinels name another primary", is_so).await;
}

/// Shows that checks work once the sentinels name another primary than `old`, and that none hangs meanwhile.
pub(crate) async fn follows(set: &Sentinels, limiter: &RedisLimiter, old: u16) {
    let found = async {
        // Where none works any more.
        while limiter.check("key").await.is_ok() {}
        let _ = recover(limiter).await;
    };
    tokio::join!(another_primary(set, old), found);
}

/// A primary that the sentinels replace on command takes writes until they demote it, seconds later. Those
/// are lost, so it is left as soon as they name another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_on_command_loses_few_of_the_charges_until_the_primary_is_demoted() {
    let set = Sentinels::start();
    // Hardly anything recovers during the test.
    let policy = Policy::gcra("test", Quota::new(10_000_000, Quota::MAX_WINDOW).unwrap());
    let limiter = async |url: &str| {
        let builder = RedisLimiter::builder(policy.clone());
        builder.deadline(PATIENT).connect(url).await.unwrap()
    };
    let (limiter, limiter_of_new) =
        (limiter(&set.url()).await, limiter(&set.server(1).url()).await);
    let _ = recover(&limiter).await;

    let (over, admitted) = (AtomicBool::new(false), AtomicU64::new(1));
    let checks = join_all((0..16).map(async |_| {
        while !over.load(Relaxed) {
            match limiter.check("key").await {
                Ok(_) => _ = admitted.fetch_add(1, Relaxed),
                Err(_) => yield_now().await,
            }
        }
    }));
    let fail_over = async {
        eventually("checks are served", async || admitted.load(Relaxed) > 1_000).await;
        set.sentinel(0).command(&["SENTINEL", "FAILOVER", Sentinels::NAME]).unwrap();
        let before = admitted.load(Relaxed);
        // Until then, the old primary takes writes.
        let role = || set.server(0).command(&["ROLE"]);
        // It closes its connections when it is demoted.
        let is_replica = async || role().is_ok_and(|role| role.contains("slave"));
        eventually("the old primary is a replica", is_replica).await;
        over.store(true, Relaxed);
        before
    };
    let (_, before) = tokio::join!(checks, fail_over);

    let admitted = admitted.into_inner();
    let charged = limiter_of_new.peek("key").await.unwrap().used();
    let (lost, meanwhile) = (admitted.saturating_sub(charged), admitted - before);
    println!("{lost} charges were lost of the {meanwhile} until the old primary was demoted");
    // A quarter, if only the sentinels' own word counted.
    assert!(lost < meanwhile / 10, "{lost} of {meanwhile} were lost");
}

#[tokio::test]
async fn any_sentinel_of_the_address_will_do() {
    let set = Sentinels::start();
    let dead = set.sentinel(0);
    assert!(dead.command(&["SHUTDOWN", "NOSAVE"]).is_err(), "it ends without an answer");
    let limiter = patient(&set.url(), 1).await;
    assert!(recover(&limiter).await.0.is_admitted());
}

/// Once the last report of a dead sentinel kept a running process at the old primary, while a new process
/// connected to the new one.
#[tokio::test]
async fn the_report_of_a_dead_sentinel_does_not_count() {
    let set = Sentinels::start();
    let [dying, staying] = [0, 1].map(|index| set.sentinel(index));
    let (name, nodes) = (Sentinels::NAME, [dying.port(), staying.port()]);
    let url = format!("redis-sentinel://127.0.0.1:{}?sentinelServiceName={name}", nodes[0]);
    let limiter = limiter(&format!("{url}&node=127.0.0.1:{}", nodes[1]), 1_000).await;
    let _ = recover(&limiter).await;

    for sentinel in [dying, set.sentinel(2)] {
        assert!(sentinel.command(&["SHUTDOWN", "NOSAVE"]).is_err(), "it ends without an answer");
    }
    let new = Server::start();
    staying.command(&["SENTINEL", "REMOVE", name]).unwrap();
    let port = new.port().to_string();
    staying.command(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "1"]).unwrap();
    let is_used = async || {
        let _ = limiter.check("key").await;
        new.command(&["EXISTS", "limiter:{skey}:test"]).unwrap() == ":1"
    };
    eventually("the new primary is used", is_used).await;
}

#[tokio::test]
async fn sentinels_may_ask_for_a_password_of_their_own() {
    let set = Sentinels::start();
    for index in 0..3 {
        let words = ["ACL", "SETUSER", "watcher", "on", ">secret", "~*", "&*", "+@all"];
        set.sentinel(index).command(&words).unwrap();
        set.sentinel(index).command(&["ACL", "SETUSER", "default", "off"]).unwrap();
    }
    let policy = Policy::gcra("test", Quota::per_day(1));
    let options = ConnectOptions::new().with_sentinel_credentials("watcher", "secret");
    let client = connect_with(&set.url(), &options).await.unwrap();
    let admitted = RedisLimiter::builder(policy).deadline(PATIENT);
    let admitted = admitted.build_on(client).unwrap();
    assert!(recover(&admitted).await.0.is_admitted());

    let locked_out = patient(&set.url(), 1).await;
    let error = locked_out.check("key").await.unwrap_err();
    assert!(error.to_string().contains("not connected"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
