//! Leases in a cluster.

use std::time::{Duration, Instant};

use futures::future::join_all;
use limiter_core::Cost;
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::Cluster,
};
use tokio::{task::yield_now, time::sleep};

use crate::{
    cluster::key_on,
    leases::{process, rate},
};

const RATE: u64 = 5_000;

/// Checks a key until `end`, and refunds one admission in eight. Returns how many were admitted and kept.
async fn spend(limiter: RedisLimiter, key: &str, audit: &Audit, end: Instant) -> u64 {
    let (mut kept, mut number) = (0, 0);
    while Instant::now() < end {
        number += 1;
        let begun = unix_micros();
        let reserved = limiter.reserve(key, Cost::ONE, Duration::ZERO).await.unwrap();
        if let Some(receipt) = reserved.into_receipt() {
            let is_back = number % 8 == 0 && limiter.refund(receipt).await.unwrap() == 1;
            if !is_back {
                audit.add(begun, 1);
                kept += 1;
            }
        }
        yield_now().await;
    }
    kept
}

/// Two processes with leases and one without share a key on each node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_the_limit_of_keys_on_each_node() {
    let (cluster, policy) = (Cluster::start(), rate(RATE));
    let mut limiters = Vec::new();
    for number in 0..3 {
        let options = ConnectOptions::new().with_name(&format!("cluster-process-{number}"));
        let connection = connect_with(&cluster.url(), &options).await.unwrap();
        limiters.push(process(&policy).lease(number < 2).build_on(connection).unwrap());
    }
    let keys: Vec<_> = (0..3).map(|node| key_on(&cluster, node)).collect();
    let audits: Vec<_> = keys.iter().map(|_| Audit::default()).collect();
    let (start, length) = (Instant::now(), Duration::from_secs(2));
    let tasks = keys.iter().zip(&audits).flat_map(|(key, audit)| {
        limiters.iter().map(move |limiter| spend(limiter.clone(), key, audit, start + length))
    });
    let kept = join_all(tasks).await;
    let most = (RATE as f64) * (1.0 + start.elapsed().as_secs_f64());
    for (key, audit) in keys.iter().zip(&audits) {
        let (admitted, over) = (audit.admitted(), audit.over(&policy));
        println!("{key}: {admitted} of {most}, {over} over the bound; {kept:?}");
        assert!(over <= 0, "{over}");
        assert!(admitted as f64 > 0.7 * most, "{admitted} of {most}");
    }
    sleep(Duration::from_millis(600)).await;
    for limiter in limiters.iter().take(2) {
        limiter.drain(Duration::from_secs(1)).await.unwrap();
        let counters = limiter.counters();
        assert!(counters.leases >= 3, "{counters:?}");
        let all = counters.leased + counters.lease_unused + counters.lease_returned;
        assert_eq!(counters.lease_permits, all, "{counters:?}");
    }
}
