//! Leases in a cluster, also while the slots of their keys move.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::Cluster,
};
use tokio::{task::yield_now, time::sleep};

use crate::{
    GIVE_UP_AFTER,
    cluster::{key_on, stored},
    eventually,
    leases::process,
};

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

/// Moves the slots of keys to the next node. Each move is interrupted behind the key, and begun again.
fn move_slots(cluster: &Cluster, keys: &[String], audits: &[Audit]) {
    // Until more is admitted, of leases that were taken in between.
    let traffic = |audit: &Audit| {
        let (start, before) = (Instant::now(), audit.admitted());
        while audit.admitted() < before + 200 {
            assert!(start.elapsed() < GIVE_UP_AFTER, "nothing is admitted");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for (key, audit) in keys.iter().zip(audits) {
        let slot = cluster.slot_of(&stored(key));
        let to = (cluster.owner(slot) + 1) % 3;
        let moving = cluster.begin_move(slot, to);
        traffic(audit);
        moving.move_key(&stored(key));
        drop(moving);
        traffic(audit);
        cluster.begin_move(slot, to).finish();
        traffic(audit);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_the_limit_of_keys_on_each_node() {
    share(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_refunds_hold_while_slots_move() {
    share(true).await;
}

/// Two processes with leases and one without share a key on each node.
async fn share(slots_move: bool) {
    // A burst recovers in four seconds, so that leases last for one, and a round trip may take a quarter of that.
    let quota = Quota::new(2_000, Duration::from_secs(4)).unwrap();
    let (cluster, policy) = (Arc::new(Cluster::start()), Policy::gcra("test", quota));
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
        if slots_move {
            let (cluster, keys, audits) = (Arc::clone(&cluster), keys.clone(), audits.clone());
            let moves = tokio::task::spawn_blocking(move || move_slots(&cluster, &keys, &audits));
            moves.await.unwrap();
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
