//! Settings that can't be served are refused when they are given.

use std::time::Duration;

use limiter_core::{Cost, ErrorKind, Policy, Quota, algorithm::Slots};
use limiter_redis::{RedisLimiter, connect};
use limiter_test::server;

use crate::limiter;

#[tokio::test]
async fn a_bad_address_is_refused_without_its_password() {
    const SCHEMES: &str = "it must begin with redis://, redis-sentinel:// or redis-cluster://, or \
                           the same with rediss or valkey";

    for (url, message) in [
        ("nonsense", &*format!("the server address \"nonsense\": {SCHEMES}")),
        (
            "http://user:secret@host:1",
            &*format!("the server address \"http://***@host:1\": {SCHEMES}"),
        ),
        (
            "redis-sentinel://user:secret@host:1",
            "the server address \"redis-sentinel://***@host:1\": Invalid or missing sentinel \
             service name query parameter.",
        ),
        ("redis://", "the server address \"redis://\": Invalid or missing host."),
        (
            "redis-cluster://user:secret@host:1/3?node=host:2",
            "the server address \"redis-cluster://***@host:1/3?node=host:2\": a cluster has no other \
             database than 0",
        ),
    ] {
        let error = connect(url).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidSetting, message)
        );
    }
}

#[test]
fn there_has_to_be_a_runtime() {
    let error = futures::executor::block_on(connect("redis://127.0.0.1:1")).unwrap_err();
    let message =
        "the server address \"redis://127.0.0.1:1\": there is no Tokio runtime to connect on";
    assert_eq!(error.to_string(), message);
}

#[test]
fn an_answer_has_to_be_awaited_on_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let limiter = runtime.block_on(limiter(&server::shared_url(), 1));
    let check = futures::executor::block_on(limiter.try_acquire("key", Cost::ONE));
    let acquire = futures::executor::block_on(limiter.acquire("key", Cost::ONE));
    for error in [check.unwrap_err(), acquire.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("there is no Tokio runtime"), "{error}");
    }
}

#[tokio::test]
async fn bad_deadlines_are_refused() {
    for (deadline, message) in [
        (Duration::ZERO, "a deadline of 0ns: use 1ms to 60s"),
        (Duration::MAX, "a deadline of 18446744073709551615.999999999s: use 1ms to 60s"),
    ] {
        let error = limiter(&server::shared_url(), 1).await.with_deadline(deadline).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn a_quota_too_large_for_doubles_is_refused() {
    // Once accepted, and then every check failed: its ticks do not fit an integer.
    let quota = Quota::per_second(u64::MAX - 4).unwrap().with_burst(1).unwrap();
    assert!(Policy::gcra("test", quota).is_err());
    // A capacity of 2^53 ticks even if one permit is a single tick.
    let quota = Quota::per_second(5_000_000).unwrap().with_burst(1 << 53).unwrap_err();
    assert_eq!(quota.kind(), ErrorKind::InvalidQuota);
    let quota = Quota::per_second(4_999_999).unwrap().with_burst(1 << 49).unwrap();
    let policy = Policy::gcra("test", quota).unwrap();
    let client = connect(&server::shared_url()).await.unwrap();
    let error = RedisLimiter::new(client, policy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    assert!(error.to_string().starts_with("a quota of 4999999/s burst 562949953421312: "));
}

#[tokio::test]
async fn a_policy_that_a_server_cannot_keep_is_refused() {
    let quota = |permits| Quota::per_second(permits).unwrap();
    let log = |permits| Policy::sliding_log("test", quota(permits)).unwrap();
    let tier = || Policy::sliding_log("tier", quota(100)).unwrap();
    let client = connect(&server::shared_url()).await.unwrap();
    // Alone, a long log is read in part; among others, all of it would be read and written at once.
    assert!(RedisLimiter::new(client.clone(), log(1_000)).is_ok());
    assert!(RedisLimiter::new(client.clone(), log(128).with_tier(tier()).unwrap()).is_ok());
    let error = RedisLimiter::new(client.clone(), log(129).with_tier(tier()).unwrap());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(error.to_string().starts_with("the policy \"test\": "), "{error}");

    let counter = |permits| Policy::sliding_counter("test", quota(permits)).unwrap();
    assert!(RedisLimiter::new(client.clone(), counter(94_906_265)).is_ok());
    let error = RedisLimiter::new(client.clone(), counter(94_906_266)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    assert!(error.to_string().contains("at most 94906265 permits"), "{error}");

    let most = 1 << 39;
    let slots = |permits| {
        let quota = Quota::per_hour(permits).unwrap();
        Policy::sub_windows("test", quota, Slots::strict(6).unwrap()).unwrap()
    };
    assert!(RedisLimiter::new(client.clone(), slots(most)).is_ok());
    let error = RedisLimiter::new(client.clone(), slots(most + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    assert!(error.to_string().contains("at most 549755813888 permits"), "{error}");

    // As many ticks a microsecond as permits a year, and they are written in six bytes.
    let uneven = |permits| {
        let quota = Quota::per(permits, Duration::from_hours(366 * 24)).unwrap();
        Policy::gcra("test", quota.with_burst(1).unwrap()).unwrap()
    };
    assert!(RedisLimiter::new(client.clone(), uneven((1 << 48) - 1)).is_ok());
    let error = RedisLimiter::new(client, uneven((1 << 48) + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    assert!(error.to_string().contains("permits that way"), "{error}");
}
