//! Clients that the caller brings: which are accepted, and what their faults mean.

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::config::{Config, ReconnectPolicy},
};
use futures::future::join_all;
use limiter_core::{ErrorKind, Policy};
use limiter_redis::{FredClient, RedisLimiter, ScriptClient, fred};
use limiter_rig::server::Server;

use crate::{daily, eventually};

#[tokio::test]
async fn a_fred_client_of_a_cluster_is_refused() {
    let config = Config::from_url("redis-cluster://127.0.0.1:1").unwrap();
    let error = FredClient::of_client(Client::new(config, None, None, None)).unwrap_err();
    let message = "invalid fred client: it is for a cluster, and returns replies to the wrong callers \
                   while slots are migrated; use limiter_redis::connect with redis-cluster://";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidSetting, message));
}

#[test]
fn a_fred_client_needs_the_runtime_that_serves_it() {
    let config = Config::from_url("redis://127.0.0.1:1").unwrap();
    let error = FredClient::of_client(Client::new(config, None, None, None)).unwrap_err();
    assert!(error.to_string().contains("there is no Tokio runtime; "), "{error}");
}

/// Returns how many permits are left, once the server replies.
async fn left<C: ScriptClient>(limiter: &RedisLimiter<C>) -> u64 {
    eventually("the server replies", async || limiter.peek("key").await.is_ok()).await;
    limiter.peek("key").await.unwrap().remaining()
}

/// A client with the library's defaults sends a command up to three times; a check is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_fred_client_charges_each_check_at_most_once() {
    let server = Server::start();
    let config = Config::from_url(&server.url()).unwrap();
    let reconnect = ReconnectPolicy::new_constant(0, 1);
    let client = Client::new(config, None, None, Some(reconnect));
    assert!(client.connection_config().max_command_attempts > 1);
    drop(client.init().await.unwrap());
    let client = FredClient::of_client(client).unwrap();
    // No permit recovers meanwhile.
    let policy = Policy::parse("test", "2000/365d").unwrap();
    let limiter = RedisLimiter::builder(policy).build_on(client).unwrap();
    let (mut made, mut decided) = (0, 0);
    for _ in 0..50 {
        let checks = join_all((0..20).map(|_| limiter.check("key")));
        let kill = async { server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap() };
        let (checks, _) = tokio::join!(checks, kill);
        made += checks.len() as u64;
        decided += checks.iter().filter(|check| check.is_ok()).count() as u64;
    }
    let taken = 2_000 - left(&limiter).await;
    println!("{taken} charged of {made} checks, {decided} decided");
    assert!(decided < made, "no call was cut");
    assert!((decided..=made).contains(&taken), "{taken} charged by {made} checks");
}

/// Shows that faults mean the same as by a connection of this crate, and that nothing is charged twice.
async fn survives_faults(server: &mut Server, client: impl ScriptClient) {
    let limiter = RedisLimiter::builder(daily(1_000)).denial_cache(0).build_on(client).unwrap();
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 999);

    server.command(&["RPUSH", "limiter:{sforeign}:test", "theirs"]).unwrap();
    let error = limiter.check("foreign").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
    assert!(error.to_string().contains("WRONGTYPE "), "{error}");

    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("OOM "), "{error}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 998);

    server.pause();
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undetermined, "{error}");
    server.resume();
    let left = left(&limiter).await;
    assert!((997..=998).contains(&left), "{left}");

    server.restart();
    eventually("it connects again", async || limiter.check("key").await.is_ok()).await;
}

#[tokio::test]
async fn faults_of_a_fred_client_mean_the_same() {
    let mut server = Server::start();
    let config = Config::from_url(&server.url()).unwrap();
    let reconnect = ReconnectPolicy::new_constant(0, 10);
    let client = Client::new(config, None, None, Some(reconnect));
    drop(client.init().await.unwrap());
    survives_faults(&mut server, FredClient::of_client(client).unwrap()).await;
}
