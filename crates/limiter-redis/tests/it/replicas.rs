//! Calls that only read are served by replicas, where that was asked for.

use std::time::Duration;

use limiter_redis::{
    ConnectOptions, Connection, ScriptCall, ScriptClient, ScriptReply, connect, connect_with,
};
use limiter_test::server::{Cluster, Server};

const CALLS: u64 = 30;

/// Reads three keys, each on a node of its own, ten times each.
async fn read(client: &Connection, read_only: bool) {
    for number in 0..CALLS {
        // Slots of the first, the second and the third: 5061, 10667 and 12182.
        let key = ["bar", "hey", "foo"][usize::try_from(number % 3).unwrap()];
        let source = "return redis.call('EXISTS', KEYS[1])";
        let mut call = ScriptCall::new(source, vec![key.into()]);
        call.read_only = read_only;
        let reply = client.run(&call, Duration::from_secs(5)).await.unwrap();
        assert_eq!(reply, ScriptReply::Integer(0));
    }
}

/// Returns how many scripts a server has run.
fn scripts_of(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_eval:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Returns how many scripts the primaries have run, and how many the replicas.
fn scripts(cluster: &Cluster) -> (u64, u64) {
    let of = |nodes: std::ops::Range<usize>| nodes.map(|node| scripts_of(cluster.node(node))).sum();
    (of(0..3), of(3..6))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_serve_what_only_reads_if_they_are_asked_to() {
    let mut cluster = Cluster::start_with_replicas();
    let primaries = connect(&cluster.url()).await.unwrap();
    read(&primaries, true).await;
    assert_eq!(scripts(&cluster), (CALLS, 0));

    let options = ConnectOptions::new().with_replica_reads();
    let any = connect_with(&cluster.url(), &options).await.unwrap();
    read(&any, false).await;
    assert_eq!(scripts(&cluster), (2 * CALLS, 0));
    read(&any, true).await;
    assert_eq!(scripts(&cluster), (2 * CALLS, CALLS));

    // Where there is no replica any more, its primary serves.
    cluster.node_mut(3).kill();
    read(&any, true).await;
    let primaries: u64 = (0..3).map(|node| scripts_of(cluster.node(node))).sum();
    assert_eq!(primaries, 2 * CALLS + CALLS / 3);
}

#[tokio::test]
async fn one_server_serves_all_by_itself() {
    let server = Server::start();
    let options = ConnectOptions::new().with_replica_reads();
    let client = connect_with(&server.url(), &options).await.unwrap();
    read(&client, true).await;
    assert_eq!(scripts_of(&server), CALLS);
}
