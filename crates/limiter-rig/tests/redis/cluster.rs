//! In a cluster: exact counts, and nodes that die or hang.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Decision, Error, ErrorKind};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::{Cluster, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{builder, connect_here, daily, eventually, limiter, patient};

/// Long enough for a busy machine, and short enough to wait for.
const LONG: Duration = Duration::from_secs(2);

pub(crate) async fn check(limiter: &RedisLimiter, key: &str) -> Result<Decision, Error> {
    limiter.check(key).await
}

pub(crate) async fn admit(limiter: &RedisLimiter, key: &str) {
    assert!(check(limiter, key).await.unwrap().is_admitted());
}

/// Returns a key of the test's limiters that primary `node` serves.
pub(crate) fn key_on(cluster: &Cluster, node: usize) -> String {
    let mut keys = (0..).map(|number| format!("key{number}"));
    let serves = |key: &String| cluster.owner(cluster.slot_of(&stored(key))) == node;
    keys.find(serves).unwrap()
}

/// Returns where the state of a key lies.
pub(crate) fn stored(key: &str) -> String {
    format!("limiter:{{s{key}}}:test")
}

/// Checks a key until it is answered.
pub(crate) async fn recover(limiter: &RedisLimiter, key: &str) {
    eventually("the node is found again", async || check(limiter, key).await.is_ok()).await;
}

/// Checks of one moment are calls of their own in a cluster, but one write to their node.
#[tokio::test]
async fn checks_of_one_moment_are_one_write_to_their_node() {
    const CHECKS: usize = 30;
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let announced = ["CONFIG", "SET", "cluster-announce-port", &port.to_string()];
    server.command(&announced).unwrap();
    serve_all_slots(&server);

    // Counts the reads that find a call, and passes on what was read.
    let reads = Arc::new(AtomicUsize::new(0));
    let (of_proxy, node) = (Arc::clone(&reads), server.port());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let reads = Arc::clone(&of_proxy);
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", node)).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
                let mut bytes = vec![0; 1 << 20];
                while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                    let has_call = bytes[..length].windows(7).any(|word| word == b"EVALSHA");
                    reads.fetch_add(usize::from(has_call), Ordering::Relaxed);
                    to_server.write_all(&bytes[..length]).await.unwrap();
                }
            });
        }
    });

    let url = format!("redis-cluster://127.0.0.1:{port}");
    let limiter = builder(1_000).deadline(LONG).build_on(connect_here(&url).await).unwrap();
    recover(&limiter, "first").await;
    let mut writes = Vec::new();
    for round in 0..20 {
        let before = reads.load(Ordering::Relaxed);
        let checks = (0..CHECKS).map(|number| limiter.check(format!("{round}-{number}")));
        let checks = tokio::spawn(join_all(checks.collect::<Vec<_>>()));
        assert!(checks.await.unwrap().into_iter().all(|result| result.is_ok()));
        writes.push(reads.load(Ordering::Relaxed) - before);
    }
    // A buffer that is full is written in two parts.
    assert!(writes.iter().all(|writes| *writes <= 2), "{writes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_missed_by_its_own_keys_alone() {
    let mut cluster = Cluster::start();
    let limiter = builder(1_000_000).deadline(LONG).connect(&cluster.url()).await.unwrap();
    let [dead, alive] = [2, 1].map(|node| key_on(&cluster, node));
    admit(&limiter, &dead).await;
    admit(&limiter, &alive).await;

    cluster.node_mut(2).kill();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        // Most calls fail: one breaker for all nodes would open.
        for _ in 0..3 {
            assert!(check(&limiter, &dead).await.is_err());
        }
        assert!(check(&limiter, &alive).await.unwrap().is_admitted());
    }
    cluster.node_mut(2).restart();
    recover(&limiter, &dead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_does_not_take_the_others_with_it() {
    let cluster = Cluster::start();
    let client = connect(&cluster.url()).await.unwrap();
    let limiter = RedisLimiter::builder(daily(1_000_000)).build_on(client.clone()).unwrap();
    let patient = RedisLimiter::builder(daily(1_000_000)).deadline(LONG).build_on(client).unwrap();
    let [hung, alive] = [2, 1].map(|node| key_on(&cluster, node));
    admit(&patient, &hung).await;
    admit(&patient, &alive).await;

    cluster.node(2).pause();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        // The node replies to nothing, so it is the deadline that ends this check.
        assert!(check(&limiter, &hung).await.is_err());
        admit(&patient, &alive).await;
    }
    cluster.node(2).resume();
    recover(&limiter, &hung).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replica_that_takes_a_dead_nodes_place_is_found() {
    let mut cluster = Cluster::start_with_replicas();
    let limiter = limiter(&cluster.url(), 1_000_000).await;
    let key = key_on(&cluster, 1);
    admit(&limiter, &key).await;

    cluster.node_mut(1).kill();
    while check(&limiter, &key).await.is_ok() {}
    recover(&limiter, &key).await;
    let words = ["EXISTS", &stored(&key)];
    assert!(cluster.node(4).command(&words).is_ok(), "the replica serves the key");
}

#[tokio::test]
async fn any_node_of_the_address_will_do() {
    let cluster = Cluster::start();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("redis-cluster://{nobody}?node=127.0.0.1:{}", cluster.node(2).port());
    let limiter = patient(&url, 1).await;
    assert!(check(&limiter, "key").await.unwrap().is_admitted());
    assert!(!check(&limiter, "key").await.unwrap().is_admitted());
}

#[tokio::test]
async fn an_address_without_a_cluster_is_an_error_that_says_so() {
    let server = Server::start();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, message) in [
        (nobody.to_string(), "no known node serves the slot"),
        (format!("127.0.0.1:{}", server.port()), "cluster support disabled"),
    ] {
        let limiter = patient(&format!("redis-cluster://{address}"), 1).await;
        let error = check(&limiter, "key").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// Has a node serve all slots.
pub(crate) fn serve_all_slots(server: &Server) {
    let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
    let words = ["CLUSTER", "ADDSLOTS"].into_iter();
    server.command(&words.chain(slots.iter().map(String::as_str)).collect::<Vec<_>>()).unwrap();
}

#[tokio::test]
async fn clusterdown_from_a_node_that_misses_others() {
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let limiter = patient(&server.url(), 1_000).await;
    serve_all_slots(&server);
    let _ = crate::recover(&limiter).await;
    // Any slot but the key's.
    let slot = server.command(&["CLUSTER", "KEYSLOT", "limiter:{skey}:test"]).unwrap();
    let other = if slot == ":1" { "2" } else { "1" };
    server.command(&["CLUSTER", "DELSLOTS", other]).unwrap();
    // Before it says so, a check may still be served; and each time it does, the library connects
    // anew, for which a check may be too early.
    let start = Instant::now();
    let error = loop {
        match limiter.check("key").await {
            Err(error) if error.to_string().contains("CLUSTERDOWN The cluster is down") => {
                break error;
            }
            other => assert!(start.elapsed() < crate::GIVE_UP_AFTER, "{other:?}"),
        }
        sleep(Duration::from_millis(5)).await;
    };
    // The library reports it to every other waiter, so nobody knows what was charged.
    assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
    server.command(&["CLUSTER", "ADDSLOTS", other]).unwrap();
    assert!(crate::recover(&limiter).await.0.is_admitted());
}

#[tokio::test]
async fn moved_from_a_cluster_that_is_taken_for_one_server() {
    let cluster = Cluster::start();
    let owner = cluster.owner(cluster.slot_of("limiter:{skey}:test"));
    let limiter = patient(&cluster.node((owner + 1) % 3).url(), 1).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("MOVED"), "{error}");
    assert!(error.to_string().ends_with("use redis-cluster://"), "{error}");
}
