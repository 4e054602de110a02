//! Limiters that share states by their policy's name, although their quotas differ.

use limiter_core::{Policy, Quota};
use limiter_redis::{ConnectOptions, RedisLimiter, connect_with};
use limiter_rig::log::Log;
use tokio::runtime::Handle;

use crate::{connect_here, server};

fn warnings(log: &Log) -> Vec<String> {
    let lines = log.lines().into_iter();
    lines.filter(|line| line.contains("same policy name")).collect()
}

fn hourly(permits: u64) -> Policy {
    Policy::gcra("logins", Quota::per_hour(permits))
}

/// Both charge one state, so each admits what the other's quota leaves.
#[tokio::test]
async fn two_quotas_under_one_name_are_logged() {
    let url = server().await;
    let log = Log::start();
    let connection = connect_here(&url).await;
    let build = |policy| RedisLimiter::builder(policy).build_on(connection.clone()).unwrap();
    let limiter = build(hourly(100));
    let same = build(hourly(100));
    let premium = limiter.with_policy(&hourly(1_000)).unwrap();
    assert_eq!(warnings(&log), [""; 0]);

    // A connection of its own leads to the same store.
    let options = ConnectOptions::new().with_runtime(Handle::current()).with_name("other");
    let connection_of_its_own = connect_with(&url, &options).await.unwrap();
    let other = RedisLimiter::builder(hourly(10)).build_on(connection_of_its_own).unwrap();
    let third = build(hourly(7));
    let lines = warnings(&log);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("WARN ") && lines[0].contains(r#"policy="logins""#), "{lines:?}");
    assert!(lines[0].contains("100/h") && lines[0].contains("10/h"), "{lines:?}");
    assert!(lines[1].contains("7/h"), "{lines:?}");
    drop((limiter, same, premium, other, third));
}

#[tokio::test]
async fn limiters_that_share_no_state_are_not_logged() {
    let (url, another) = (server().await, server().await);
    let log = Log::start();
    let connection = connect_here(&url).await;
    let builder = RedisLimiter::builder;
    let limiter = builder(hourly(100)).build_on(connection.clone()).unwrap();
    let mut others = Vec::new();
    for builder in [
        builder(hourly(10)).prefix("another"),
        builder(Policy::gcra("uploads", Quota::per_hour(10))),
        builder(Policy::sliding_log("logins", Quota::per_hour(10))),
    ] {
        others.push(builder.build_on(connection.clone()).unwrap());
    }
    for url in [another, format!("{url}/1")] {
        others.push(builder(hourly(10)).build_on(connect_here(&url).await).unwrap());
    }
    assert_eq!(warnings(&log), [""; 0]);
    // One that replaces another after a reload of the configuration.
    drop(limiter);
    let limiter = builder(hourly(5)).build_on(connection).unwrap();
    assert_eq!(warnings(&log), [""; 0]);
    drop((limiter, others));
}
