//! What a server says when it refuses: each word by a server that was brought to say it.

use std::{
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{Error, ErrorKind};
use limiter_redis::RedisLimiter;
use limiter_rig::server::{Cluster, Server};
use tokio::time::sleep;

use crate::{faults::recover, patient};

/// Returns the error of a check, which says that nothing was charged, and contains `word`.
async fn refusal(limiter: &RedisLimiter, word: &str) -> Error {
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(word), "{error}");
    error
}

/// Has a node serve all slots.
pub(crate) fn serve_all_slots(server: &Server) {
    let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
    let words = ["CLUSTER", "ADDSLOTS"].into_iter();
    server.command(&words.chain(slots.iter().map(String::as_str)).collect::<Vec<_>>()).unwrap();
}

#[tokio::test]
async fn readonly_until_the_server_is_a_primary_again() {
    let primary = Server::start();
    let server = Server::start();
    let limiter = patient(&server.url(), 2).await;
    assert_eq!(recover(&limiter).await.0.remaining(), 1);

    let port = primary.port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    refusal(&limiter, "READONLY").await;

    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let _ = recover(&limiter).await;
}

#[tokio::test]
async fn masterdown_from_a_replica_without_its_primary() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start();
    let limiter = patient(&server.url(), 1).await;
    let _ = recover(&limiter).await;
    server.command(&["CONFIG", "SET", "replica-serve-stale-data", "no"]).unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", &nobody.port().to_string()]).unwrap();
    refusal(&limiter, "MASTERDOWN").await;
}

#[tokio::test]
async fn noreplicas_from_a_primary_that_has_too_few() {
    let server = Server::start();
    let limiter = patient(&server.url(), 2).await;
    let _ = recover(&limiter).await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let version = server.command(&["INFO", "server"]).unwrap();
    if version.contains("redis_version:6.") {
        // It lets a script write, however few there are.
        assert_eq!(recover(&limiter).await.0.remaining(), 0);
        return;
    }
    refusal(&limiter, "NOREPLICAS").await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
}

#[tokio::test]
async fn misconf_while_the_server_can_not_save() {
    let server = Server::start();
    let limiter = patient(&server.url(), 2).await;
    let _ = recover(&limiter).await;
    // Where it would save, there is a folder.
    let dir = server.command(&["CONFIG", "GET", "dir"]).unwrap();
    let dir = dir.lines().nth(4).unwrap();
    std::fs::create_dir(format!("{dir}/dump.rdb")).unwrap();
    server.command(&["CONFIG", "SET", "save", "3600 1"]).unwrap();
    server.command(&["BGSAVE"]).unwrap();
    let saved = || server.command(&["INFO", "persistence"]).unwrap();
    while !saved().contains("rdb_last_bgsave_status:err") {}
    refusal(&limiter, "MISCONF").await;
    server.command(&["CONFIG", "SET", "save", ""]).unwrap();
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_while_another_script_runs() {
    let server = Arc::new(Server::start_with(&["--lua-time-limit", "1"]));
    let limiter = patient(&server.url(), 2).await;
    let _ = recover(&limiter).await;
    let endless = tokio::task::spawn_blocking({
        let server = Arc::clone(&server);
        move || server.command(&["EVAL", "while true do end", "0"])
    });
    while server.command(&["PING"]).is_ok() {}
    refusal(&limiter, "BUSY").await;
    server.command(&["SCRIPT", "KILL"]).unwrap();
    assert!(endless.await.unwrap().is_err());
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
}

#[tokio::test]
async fn clusterdown_from_a_node_that_misses_others() {
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let limiter = patient(&server.url(), 1_000).await;
    serve_all_slots(&server);
    let _ = recover(&limiter).await;
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
    assert!(recover(&limiter).await.0.is_admitted());
}

#[tokio::test]
async fn moved_from_a_cluster_that_is_taken_for_one_server() {
    let cluster = Cluster::start();
    let owner = cluster.owner(cluster.slot_of("limiter:{skey}:test"));
    let limiter = patient(&cluster.node((owner + 1) % 3).url(), 1).await;
    let error = refusal(&limiter, "MOVED").await;
    assert!(error.to_string().ends_with("use redis-cluster://"), "{error}");
}
