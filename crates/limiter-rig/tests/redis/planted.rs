//! How many commands a check takes, as a real server counts them.

use std::time::Duration;

use limiter_core::Policy;
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::key_of;

const KEY: &str = "key";

/// A check behind many entries that are over reads them 64 at a time, and removes them.
#[tokio::test]
async fn a_check_behind_many_ended_entries_takes_few_commands() {
    const ENDED: u64 = 20_000;
    let server = Server::start();
    let policy = Policy::parse("test", "1000000/h by sliding-log").unwrap();
    let builder = RedisLimiter::builder(policy);
    let limiter = builder.deadline(Duration::from_secs(5)).connect(&server.url()).await.unwrap();
    let key = key_of(&limiter, KEY);
    let now = server.command(&["TIME"]).unwrap();
    let now: u64 = now.split("\r\n").nth(2).unwrap().parse().unwrap();
    let head = format!("{}000000 1 {}", now - 60, ENDED + 2);
    let ended = (1..=ENDED).map(|n| format!("{}{n:06} 1", now - 7_200));
    let counts = format!("{}000000 1", now - 120);
    let elements: Vec<_> = [head].into_iter().chain(ended).chain([counts]).collect();
    for chunk in elements.chunks(1_000) {
        let words: Vec<_> =
            ["RPUSH", &key].into_iter().chain(chunk.iter().map(|it| &**it)).collect();
        server.command(&words).unwrap();
    }
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let decision = limiter.check(KEY).await.unwrap();
    assert_eq!(decision.remaining(), 1_000_000 - 3);
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let reads = stats.split("cmdstat_lrange:calls=").nth(1).unwrap();
    let reads: u64 = reads.split(',').next().unwrap().parse().unwrap();
    assert!(reads <= ENDED / 64 + 5, "{reads} LRANGE");
    let length = server.command(&["LLEN", &key]).unwrap();
    assert_eq!(length.trim(), ":3");
}
