//! Clusters and sentinels that obey commands.

use std::time::{Duration, Instant};

use limiter_rig::server::{Cluster, Sentinels};

#[test]
fn a_cluster_serves_every_slot_and_moves_one_with_its_keys() {
    let cluster = Cluster::start();
    let old = cluster.owner(cluster.slot_of("key"));
    let new = (old + 1) % 3;
    cluster.node(old).command(&["SET", "key", "value"]).unwrap();

    let moving = cluster.begin_move(cluster.slot_of("key"), new);
    assert_eq!(cluster.node(old).command(&["GET", "key"]).unwrap(), "$5\r\nvalue");
    moving.move_keys();
    let error = cluster.node(old).command(&["GET", "key"]).unwrap_err().to_string();
    assert!(error.starts_with("ASK "), "{error}");
    moving.finish();

    let error = cluster.node(old).command(&["GET", "key"]).unwrap_err().to_string();
    assert!(error.starts_with("MOVED "), "{error}");
    assert_eq!(cluster.node(new).command(&["GET", "key"]).unwrap(), "$5\r\nvalue");
}

#[test]
fn the_replica_of_a_dead_node_takes_its_place() {
    let mut cluster = Cluster::start_with_replicas();
    let slot = cluster.slot_of("key");
    let owner = cluster.owner(slot);
    cluster.node_mut(owner).kill();
    let start = Instant::now();
    while cluster.node(owner + 3).command(&["GET", "key"]).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn sentinels_have_the_replica_take_the_place_of_a_dead_primary() {
    let mut set = Sentinels::start();
    assert_eq!(set.primary(), Some(set.server(0).port()));
    set.server_mut(0).kill();
    let start = Instant::now();
    while set.primary() != Some(set.server(1).port()) {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert!(set.server(1).command(&["ROLE"]).unwrap().contains("master"));
}
