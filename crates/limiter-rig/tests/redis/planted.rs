//! What someone else has written at a limiter's keys. limiter-redis plants random fields and lists in a server in the process.

use std::time::Duration;

use limiter_core::{Algorithm, ErrorKind, Limit, Policy};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::Server;
use limiter_test::bounds::cases::policies;

use crate::key_of;

const KEY: &str = "key";

fn is_log(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::SubWindows(_) | Algorithm::SlidingLog)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_another_type_is_an_error_and_is_left_alone() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    for (number, (name, policy)) in policies().into_iter().enumerate() {
        let limiter = RedisLimiter::builder(policy)
            .prefix(&number.to_string())
            .denial_cache(0)
            .deadline(Duration::from_secs(10))
            .build_on(client.clone())
            .unwrap();
        let keys = limiter.stored_keys(KEY).unwrap();
        let has_hash = !limiter.policy().limits().iter().all(is_log);
        for (place, key) in keys.iter().enumerate() {
            let key = str::from_utf8(key).unwrap();
            let own = if has_hash && place == 0 { "HSET" } else { "RPUSH" };
            for plant in [
                &["SET", key, "1"][..],
                &["RPUSH", key, "1"],
                &["SADD", key, "1"],
                &["HSET", key, "1", "1"],
                &["ZADD", key, "1", "1"],
                &["XADD", key, "*", "1", "1"],
            ] {
                if plant[0] == own {
                    continue;
                }
                limiter.reset(KEY).await.unwrap();
                server.command(plant).unwrap();
                let dump = server.command(&["OBJECT", "ENCODING", key]).unwrap();
                // Far more often than a breaker would take for an outage.
                for _ in 0..10 {
                    let error = limiter.check(KEY).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Unexpected, "{name}: {error}");
                    assert!(error.to_string().contains("WRONGTYPE "), "{name}: {error}");
                }
                assert_eq!(server.command(&["OBJECT", "ENCODING", key]).unwrap(), dump);
            }
        }
        assert_eq!(limiter.counters().short_circuited, 0);
        limiter.reset(KEY).await.unwrap();
        assert_eq!(limiter.peek(KEY).await.unwrap().reset_after(), Duration::ZERO);
    }
}

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
