//! What someone else has written at a limiter's keys. limiter-redis plants random fields and lists in a server in the process.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, ErrorKind, Limit, Policy};
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

/// The server's Lua reads `nan` and `inf` as numbers, and no comparison with `nan` holds. The check of such a field once
/// was a refusal without end.
#[tokio::test]
async fn a_time_that_is_no_number_is_a_full_debt_that_is_paid() {
    let server = Server::start();
    for policy in ["10/min", "10/min, 100/h"] {
        let limits = policy.split(", ").map(|limit| Policy::parse(limit, limit).unwrap());
        let policy = Policy::all_of("test", limits).unwrap();
        let limiter = RedisLimiter::builder(policy).denial_cache(0);
        let limiter = limiter.connect(&server.url()).await.unwrap();
        let key = key_of(&limiter, KEY);
        for time in ["             nan", "             inf", "-nan            "] {
            for field in limiter.policy().identities() {
                limiter.reset(KEY).await.unwrap();
                server.command(&["HSET", &key, field, time]).unwrap();
                let decision = limiter.check(KEY).await.unwrap();
                assert!(!decision.is_admitted(), "{field} {time:?}: {decision:?}");
                let most = Duration::from_secs(3_600);
                assert!(decision.retry_after().unwrap() <= most, "{field} {time:?}: {decision:?}");
                assert_ne!(server.command(&["PTTL", &key]).unwrap(), ":-1", "{field} {time:?}");
            }
        }
    }
}

/// Adds the marks of damage to a log, and checks that it is no allowance and holds the key no longer
/// than its entries can count.
#[tokio::test]
async fn a_damaged_entry_is_no_allowance_and_no_endless_wait() {
    let server = Server::start();
    for policy in ["10/h by sliding-log", "10/h by sub-windows 60 slots"] {
        let policy = Policy::parse("test", policy).unwrap();
        let limiter = RedisLimiter::builder(policy).connect(&server.url()).await.unwrap();
        let key = key_of(&limiter, KEY);
        let now = server.command(&["TIME"]).unwrap();
        let now: u64 = now.split("\r\n").nth(2).unwrap().parse().unwrap();
        let at = |seconds: u64| format!("{}000000", now - seconds);
        let head = format!("{} 1 9", at(60));
        let sound = format!("{} 8", at(120));
        let far = format!("{} 8", now + 1_000_000_000);
        for (head, older) in [
            (at(60), &*sound),
            (format!("{} 1 {}", at(60), "9".repeat(20)), &*sound),
            (format!("{} 9 8", at(60)), &*sound),
            (head.clone(), "garbage"),
            (head.clone(), "5 8"),
            (head.clone(), &far),
            (head.clone(), &*format!("{} 8 9", at(120))),
        ] {
            server.command(&["DEL", &key]).unwrap();
            server.command(&["RPUSH", &key, &head, older]).unwrap();
            let what = format!("{head}, {older}");
            let decision = limiter.check_n(KEY, Cost::of(2)).await.expect(&what);
            assert!(!decision.is_admitted(), "{what}: {decision:?}");
            let wait = decision.retry_after().expect(&what);
            assert!(wait <= Duration::from_secs(2 * 3_600 + 60), "{what}: {wait:?}");
            limiter.reset(KEY).await.unwrap();
        }
        server.command(&["RPUSH", &key, &head, &sound]).unwrap();
        assert_eq!(limiter.peek(KEY).await.unwrap().remaining(), 1, "{head}, {sound}");
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
