//! Leases in a cluster.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::Cluster,
};
use tokio::{task::yield_now, time::sleep};

use crate::{cluster::key_on, eventually, leases::process};

/// Checks a key until it is over, and refunds one admission in eight. Adds those that are kept.
async fn spend(
    limiter: &RedisLimiter,
    key: &str,
    audit: &Audit,
    kept: &AtomicU64,
    over: &AtomicBool,
) {
    let mut number = 0;
    while !over.load(Relaxed) {
        number += 1;
        let begun = unix_micros();
        let reserved = limiter.reserve(key, Cost::ONE, Duration::ZERO).await.unwrap();
        if let Some(receipt) = reserved.into_receipt() {
            let is_back = number % 8 == 0 && limiter.refund(receipt).await.unwrap() == 1;
            if !is_back {
                audit.add(begun, 1);
                kept.fetch_add(1, Relaxed);
            }
        }
        yield_now().await;
    }
}

/// Two processes with leases and one without share a key on each node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_the_limit_of_keys_on_each_node() {
    // A burst recovers in four seconds, so that leases last for one, and a round trip may take a quarter of that.
    let quota = Quota::new(2_000, Duration::from_secs(4)).unwrap();
    let (cluster, policy) = (Cluster::start(), Policy::gcra("test", quota));
    let mut limiters = Vec::new();
    for number in 0..3 {
        let options = ConnectOptions::new().with_name(&format!("cluster-process-{number}"));
        let connection = connect_with(&cluster.url(), &options).await.unwrap();
        limiters.push(process(&policy).lease(number < 2).build_on(connection).unwrap());
    }
    let keys: Vec<_> = (0..3).map(|node| key_on(&cluster, node)).collect();
    let audits: Vec<_> = keys.iter().map(|_| Audit::default()).collect();
    let kept: Vec<_> = (0..9).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    // Several at a time, so that a key is worth a lease however slow the machine is.
    let tasks = (0..36).map(|task| {
        let (key, limiter) = (task % 3, task / 3 % 3);
        spend(&limiters[limiter], &keys[key], &audits[key], &kept[3 * key + limiter], &over)
    });
    let end = async {
        // All have admitted some, those with leases by several, and each key more than its burst.
        for kept in &kept {
            eventually("each process admits", async || kept.load(Relaxed) >= 20).await;
        }
        for limiter in &limiters[..2] {
            eventually("there are leases", async || limiter.counters().leases >= 9).await;
        }
        for audit in &audits {
            eventually("the limit is reached", async || audit.admitted() > 2_500).await;
        }
        over.store(true, Relaxed);
    };
    tokio::join!(join_all(tasks), end);
    for (key, audit) in keys.iter().zip(&audits) {
        let (admitted, over) = (audit.admitted(), audit.over(&policy));
        println!("{key}: {admitted}, {over} over the bound; {kept:?}");
        assert!(over <= 0, "{over}");
    }
    // Until all leases have ended.
    sleep(Duration::from_millis(1_200)).await;
    for limiter in &limiters[..2] {
        limiter.drain(crate::PATIENT).await.unwrap();
        let counters = limiter.counters();
        let all = counters.leased + counters.lease_unused + counters.lease_returned;
        assert_eq!(counters.lease_permits, all, "{counters:?}");
    }
}
