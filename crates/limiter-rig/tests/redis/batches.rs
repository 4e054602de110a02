//! Checks that are made at the same moment share a call, and nothing else: neither permits nor errors.

use std::time::Duration;

use futures::{future::join_all, poll};
use limiter_core::{Decision, Error, ErrorKind, Limit, Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::runtime::Builder;

use crate::{builder, calls, connect_here, patient};

const LONG: Duration = Duration::from_secs(5);

/// Checks all keys at the same moment: in one task, which the senders wait for.
async fn check(limiter: &RedisLimiter, keys: &[&str]) -> Vec<Result<Decision, Error>> {
    let checks: Vec<_> = keys.iter().map(|key| limiter.check(*key)).collect();
    tokio::spawn(join_all(checks)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_on_one_key_take_exactly_the_limit() {
    let server = Server::start();
    // Eight limits, by quotas with remainders.
    let limits =
        (1..=8).map(|n| Policy::parse(&format!("limit {n}"), &format!("{}/{n}d", 93 + 7 * n)));
    let limits: Vec<_> = limits.map(Result::unwrap).collect();
    for policy in [
        Policy::parse("one", "100/day"),
        Policy::parse("one", "100/day by sub-windows 10 slots"),
        Policy::parse("one", "100/day by fixed-window"),
        Policy::all_of("eight", limits),
    ] {
        let policy = policy.unwrap();
        let limiter = RedisLimiter::builder(policy.clone())
            .prefix(&policy.identities()[0])
            .deadline(Duration::from_secs(10))
            .denial_cache(0)
            .connect(&server.url())
            .await
            .unwrap();
        let tasks = (0..400).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check("key").await.unwrap() })
        });
        let tasks: Vec<_> = tasks.collect();
        let decisions = join_all(tasks).await.into_iter().map(Result::unwrap);
        assert_eq!(decisions.filter(Decision::is_admitted).count(), 100);
    }
}

#[tokio::test]
async fn those_who_ask_at_the_same_moment_share_a_call() {
    let server = Server::start();
    let limiter = builder(3).deadline(LONG).build_on(connect_here(&server.url()).await).unwrap();
    for result in check(&limiter, &["a"; 32]).await {
        let _ = result.unwrap();
    }
    // The script is there now.
    let before = calls(&server);
    let keys: Vec<String> = (0..32).map(|number| number.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for result in check(&limiter, &keys).await {
        assert_eq!(result.unwrap().remaining(), 2);
    }
    assert_eq!(calls(&server) - before, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_value_fails_its_own_check_alone() {
    let server = Server::start();
    let limiter = patient(&server.url(), 3).await;
    for keys in [["a", "b", "foreign"], ["foreign", "a", "b"], ["a", "foreign", "b"]] {
        server.command(&["DEL", "limiter:{sa}:test", "limiter:{sb}:test"]).unwrap();
        server.command(&["DEL", "limiter:{sforeign}:test"]).unwrap();
        server.command(&["RPUSH", "limiter:{sforeign}:test", "theirs"]).unwrap();
        for (key, result) in keys.iter().zip(check(&limiter, &keys).await) {
            if *key == "foreign" {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
                assert!(error.to_string().contains("Redis: HGET: WRONGTYPE "), "{error}");
            } else {
                assert_eq!(result.unwrap().remaining(), 2, "{key}");
            }
        }
    }
    assert_eq!(limiter.counters().short_circuited, 0);
}

#[test]
fn a_connection_whose_runtime_ended_leaves_no_check_waiting() {
    let one_thread = || Builder::new_current_thread().enable_all().build().unwrap();
    let (connected, caller, server) = (one_thread(), one_thread(), Server::start());
    let connection = connected.block_on(connect_here(&server.url()));
    let limiter = builder(3).deadline(LONG).build_on(connection).unwrap();
    let mut queued = limiter.check("key");
    caller.block_on(async { assert!(poll!(&mut queued).is_pending()) });
    drop(connected);
    for check in [queued, limiter.check("key"), limiter.check("key")] {
        assert_eq!(caller.block_on(check).unwrap_err().kind(), ErrorKind::Undetermined);
    }
}

/// A quota for each customer, all checked at the same moment.
#[tokio::test]
async fn checks_under_different_quotas_share_a_call() {
    let server = Server::start();
    for text in ["1/d", "1/d by fixed-window", "1/d by sliding-counter", "1/d by sliding-log"] {
        let connection = connect_here(&server.url()).await;
        let policy = Policy::parse("test", text).unwrap();
        let builder = RedisLimiter::builder(policy.clone());
        let limiter = builder.deadline(LONG).build_on(connection).unwrap();
        // The script is there from then on.
        let _ = limiter.check("first").await.unwrap();
        let customers = (1..=320_u64).map(|permits| {
            let quota = |limit: &Limit| Ok((limit.algorithm(), Quota::per_day(permits + 1)));
            (permits, limiter.with_policy(&policy.with_quotas(quota).unwrap()).unwrap())
        });
        let customers: Vec<_> = customers.collect();
        let before = calls(&server);
        let checks = customers.iter().map(|(permits, handle)| handle.check(*permits));
        for (result, (permits, _)) in join_all(checks).await.into_iter().zip(&customers) {
            assert_eq!(result.unwrap().remaining(), *permits, "{text}");
        }
        // A log has fewer checks in a call.
        let calls = calls(&server) - before;
        let expected = if text.contains("log") { 20 } else { 10 };
        assert_eq!(calls, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_script_cache_is_invisible() {
    let server = Server::start();
    let limiter = patient(&server.url(), 100).await;
    let mut admitted = 0;
    for round in 0..200 {
        if round % 10 == 5 {
            assert_eq!(server.command(&["SCRIPT", "FLUSH"]).unwrap(), "+OK");
        }
        let several = (0..4).map(|_| limiter.check("key"));
        for decision in join_all(several).await {
            admitted += u32::from(decision.unwrap().is_admitted());
        }
    }
    assert_eq!(admitted, 100);
}
