//! Runs the program on a real server, and shows what faults mean by its client. The conformance suite of `limiter-redis`
//! runs over the client, too.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use example_redis_client::RedisClient;
use limiter_core::{ErrorKind, Policy};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::time::sleep;

#[test]
fn three_requests_a_minute_are_admitted() {
    let server = Server::start();
    let mut program = Command::new(env!("CARGO_BIN_EXE_example-redis-client"));
    let output = program.env("REDIS_URL", server.url()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let expected =
        "admitted, 2 remaining\nadmitted, 1 remaining\nadmitted, 0 remaining\nrefused for 20 s\n";
    assert_eq!(text, expected);
}

/// Faults mean the same as by a connection of `limiter-redis`, and nothing is charged twice.
#[tokio::test]
async fn faults_mean_the_same() {
    let mut server = Server::start();
    let manager = redis::Client::open(server.url()).unwrap().get_connection_manager().await;
    let client = RedisClient::of(manager.unwrap()).unwrap();
    let policy = Policy::parse("test", "1000/d").unwrap();
    let limiter = RedisLimiter::builder(policy).denial_cache(0).build_on(client).unwrap();
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
    let start = Instant::now();
    let left = loop {
        if let Ok(usage) = limiter.peek("key").await {
            break usage.remaining();
        }
        assert!(start.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(5)).await;
    };
    assert!((997..=998).contains(&left), "{left}");

    server.restart();
    while limiter.check("key").await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not connect again");
        sleep(Duration::from_millis(5)).await;
    }
}
