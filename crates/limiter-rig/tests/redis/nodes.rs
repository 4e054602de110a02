//! Each node of a cluster by itself: what fails at one is reported with its address, and is not taken
//! for another's.

use std::time::{Duration, Instant};

use limiter_core::Error;
use limiter_redis::{Connection, RedisLimiter, ScriptClient, connect};
use limiter_rig::{log::Log, server::Cluster};
use tokio::time::sleep;

use crate::{
    cluster::{admit, check, key_on, stored},
    connect_here, daily, eventually,
};

async fn connected(cluster: &Cluster) -> (Connection, RedisLimiter) {
    let client = connect(&cluster.url()).await.unwrap();
    let limiter = patient(&client);
    (client, limiter)
}

fn patient(client: &Connection) -> RedisLimiter {
    let policy = daily(1_000_000);
    let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(5));
    limiter.build_on(client.clone()).unwrap()
}

/// Checks a key, which fails, until the node is not asked any more, and returns why.
async fn refused_at_once(limiter: &RedisLimiter, key: &str) -> Error {
    let start = Instant::now();
    loop {
        let error = check(limiter, key).await.unwrap_err();
        if error.to_string().contains("is not called") {
            return error;
        }
        assert!(start.elapsed() < crate::GIVE_UP_AFTER, "{error}");
    }
}

/// Once the number was the place among those that `CLUSTER SLOTS` listed, so that it meant another
/// node when slots had moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nodes_number_stays_when_slots_move() {
    let cluster = Cluster::start();
    let (client, limiter) = connected(&cluster).await;
    let number = |key: &str| client.server_of(stored(key).as_bytes()).map(|(number, _)| number);
    let keys = [0, 1, 2].map(|node| key_on(&cluster, node));
    let before = keys.clone().map(|key| number(&key));
    assert!(!before.contains(&None), "{before:?}");

    let slot = |key: &str| cluster.slot_of(&stored(key));
    let on_first = |key: &String| cluster.owner(slot(key)) == 0;
    let moved: Vec<String> =
        (0..).map(|number| format!("key{number}")).filter(on_first).take(2).collect();
    for key in &moved {
        cluster.begin_move(slot(key), 2).finish();
    }
    // The cluster is not asked for the slots again within a tenth of a second.
    sleep(Duration::from_millis(110)).await;
    // The node reports one, and the cluster is asked for the other.
    admit(&limiter, &moved[0]).await;
    eventually("the slots are learned", async || number(&moved[1]) == before[2]).await;
    assert_eq!([number(&keys[1]), number(&keys[2])], [before[1], before[2]]);
}

/// Once what no node served was counted against the first of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_no_node_serves_is_missed_by_its_own_keys_alone() {
    let cluster = Cluster::start();
    let keys = [0, 1, 2].map(|node| key_on(&cluster, node));
    let unserved = {
        let mut keys = (0..).map(|number| format!("other{number}"));
        keys.find(|key| cluster.owner(cluster.slot_of(&stored(key))) == 0).unwrap()
    };
    let slot = cluster.slot_of(&stored(&unserved)).to_string();
    for node in 0..3 {
        cluster.node(node).command(&["CLUSTER", "DELSLOTS", &slot]).unwrap();
    }
    let (client, limiter) = connected(&cluster).await;
    assert_eq!(client.server_of(stored(&unserved).as_bytes()), None);
    refused_at_once(&limiter, &unserved).await;
    for key in keys {
        admit(&limiter, &key).await;
    }
}

#[tokio::test]
async fn what_fails_at_a_node_names_it() {
    let log = Log::start();
    let mut cluster = Cluster::start();
    let client = connect_here(&cluster.url()).await;
    let limiter = patient(&client);
    let [key, other] = [2, 1].map(|node| key_on(&cluster, node));
    let node = format!("127.0.0.1:{}", cluster.node(2).port());
    admit(&limiter, &key).await;

    cluster.node(2).command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = check(&limiter, &key).await.unwrap_err().to_string();
    // Redis 6.2 names the script before.
    let is_named = error.starts_with(&format!("policy \"test\": Redis at {node}: "));
    assert!(is_named && error.contains("OOM "), "{error}");
    cluster.node(2).command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    while check(&limiter, &key).await.is_err() {}
    admit(&limiter, &other).await;

    let limiter = RedisLimiter::builder(daily(1_000_000));
    let limiter = limiter.deadline(Duration::from_millis(500)).build_on(client).unwrap();
    cluster.node_mut(2).kill();
    let error = loop {
        let error = check(&limiter, &key).await.unwrap_err().to_string();
        if error.contains("not connected to") {
            break error;
        }
    };
    assert!(error.contains(&node), "{error}");
    let failed = format!("policy \"test\": Redis at {node} failed ");
    while !check(&limiter, &key).await.unwrap_err().to_string().starts_with(&failed) {}
    let lines = log.lines();
    let opened = lines.iter().find(|line| line.contains("limiter_redis::outage_log")).unwrap();
    assert!(opened.contains(&format!("node=\"{node}\"")), "{opened}");
}
