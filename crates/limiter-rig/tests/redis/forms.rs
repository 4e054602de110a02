//! Processes whose versions store a state in different forms, as in a rolling deployment.

use std::time::Duration;

use futures::future::join_all;
use limiter_core::Policy;
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::key_of;

const LIMIT: u64 = 20;

/// A made-up next form of a limit of [`LIMIT`] permits: `next` and the permits that are taken.
const NEXT: &str =
    "local taken = tonumber(string.match(redis.call('GET', KEYS[1]) or 'next 0', '^next (%d+)$'))
if taken >= 20 then
  return 0
end
redis.call('SET', KEYS[1], 'next ' .. taken + 1, 'PX', 60000)
return 1";

async fn limiter(server: &Server, policy: &str) -> RedisLimiter {
    let policy = Policy::parse("api", policy).unwrap();
    let builder = RedisLimiter::builder(policy);
    builder.denial_cache(0).deadline(Duration::from_secs(10)).connect(&server.url()).await.unwrap()
}

/// Each kind of process counts by itself, so that both together admit at most twice the limit, and
/// neither takes the other's states for damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_two_forms_leave_each_other_alone() {
    let server = Server::start();
    for policy in ["20/d", "20/d by fixed-window", "20/d by sliding-counter", "20/d by sliding-log"]
    {
        let present = limiter(&server, policy).await;
        let key = key_of(&present, "alice");
        let next_key = format!("{key}.next");
        let checks = (0..200).map(|_| {
            let present = present.clone();
            tokio::spawn(async move { present.check("alice").await.unwrap().is_admitted() })
        });
        let checks: Vec<_> = checks.collect();
        let mut by_next = 0;
        for _ in 0..200 {
            let reply = server.command(&["EVAL", NEXT, "1", &next_key]).unwrap();
            by_next += u64::from(reply.trim() == ":1");
        }
        let by_present = join_all(checks).await.into_iter().map(Result::unwrap);
        let by_present = by_present.filter(|is_admitted| *is_admitted).count();
        assert_eq!((by_present, by_next), (20, LIMIT), "{policy}");
        // Once their own permits are back, none waits for the other.
        present.reset("alice").await.unwrap();
        assert!(present.check("alice").await.unwrap().is_admitted(), "{policy}");
        let stored = server.command(&["GET", &next_key]).unwrap();
        assert!(stored.contains("next 20"), "{policy}: {stored}");
    }
}

/// The first case: entries of logs once had no totals, and then running ones.
#[tokio::test]
async fn the_first_form_of_logs_is_not_read() {
    let server = Server::start();
    for (policy, old_key) in [
        ("20/d by sliding-log", "limiter:{salice}:api:sliding-log"),
        ("20/d by sub-windows 4 slots", "limiter:{salice}:api:sub-windows"),
    ] {
        let entries = ["1767225630000000 1 3 1 60000000 60000000", "1767225600000000 2"];
        server.command(&["RPUSH", old_key, entries[0], entries[1]]).unwrap();
        let limiter = limiter(&server, policy).await;
        assert_eq!(limiter.check("alice").await.unwrap().remaining(), LIMIT - 1);
        let key = key_of(&limiter, "alice");
        assert_eq!(key, format!("{old_key}.3"));
        assert_eq!(server.command(&["LLEN", old_key]).unwrap().trim(), ":2");
    }
}
