//! Changed policies on used keys, and keys that lost their expiry.

use std::time::{Duration, Instant};

use limiter_core::{Algorithm, Cost, Policy, Quota};
use limiter_redis::{Connection, RedisLimiter, connect};
use limiter_rig::server::Server;

use crate::key_of;

/// Returns a limiter that asks the server for each check.
fn on(client: &Connection, policy: &Policy) -> RedisLimiter {
    let builder = RedisLimiter::builder(policy.clone()).denial_cache(0);
    builder.deadline(Duration::from_secs(10)).build_on(client.clone()).unwrap()
}

/// Two processes with different quotas for one key: once, each check by the slower one gave the
/// faster one its permits back.
#[tokio::test]
async fn mixed_quotas_on_one_key_forgive_no_debt() {
    let server = Server::start();
    let fast = Policy::gcra("test", Quota::per_hour(1_000));
    let slow = Policy::gcra("test", Quota::per_hour(10));
    let client = connect(&server.url()).await.unwrap();
    let (one, other) = (on(&client, &fast), on(&client, &slow));
    let start = Instant::now();
    let mut admitted = 0;
    for _ in 0..5 {
        while one.check("key").await.unwrap().is_admitted() {
            admitted += 1;
        }
        for _ in 0..3 {
            assert!(!other.check("key").await.unwrap().is_admitted());
        }
        let again = one.with_policy(&fast).unwrap();
        admitted += u64::from(again.check("key").await.unwrap().is_admitted());
    }
    // One permit in 3.6 seconds.
    let recovered = u64::try_from(start.elapsed().as_millis()).unwrap() / 3_600;
    assert!((1_000..=1_001 + recovered).contains(&admitted), "{admitted}");
}

/// Limits were sorted by window, and a state belonged to a place: with 100/s as 1000/2h, the two limits
/// changed places in the key, and 100 more permits were admitted at once.
#[tokio::test]
async fn a_limit_keeps_its_debt_whichever_window_is_shorter() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    let both = |x: &str| {
        let limits = [("x", x), ("y", "100/h")];
        let limits = limits.map(|(name, text)| Policy::parse(name, text).unwrap());
        Policy::all_of("api", limits).unwrap()
    };
    let limiter = on(&client, &both("100/s"));
    assert!(limiter.check_n("key", Cost::of(100)).await.unwrap().is_admitted());
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let slower = both("1000/2h");
    for reloaded in [limiter.with_policy(&slower).unwrap(), on(&client, &slower)] {
        let refusal = reloaded.check_n("key", Cost::of(90)).await.unwrap();
        assert!(!refusal.is_admitted());
        assert_eq!(slower.limits()[refusal.limit_index()].name(), "y");
    }
}

/// A policy with other algorithms, or another number of limits, under the same name: once, 106 of 132
/// such changes refused a used key for up to two days.
#[tokio::test]
async fn changed_algorithms_under_one_name_start_anew() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    let single = |text: &str| Policy::parse("api", text).unwrap();
    let texts = Algorithm::one_of_each().map(|algorithm| format!("3/day by {algorithm}"));
    let mut policies: Vec<Policy> = texts.map(|text| single(&text)).collect();
    let named = |name: &str, text: &str| Policy::parse(name, text).unwrap();
    policies.push(
        Policy::all_of("api", [named("a", "3/day"), named("b", "30/2d by sliding-log")]).unwrap(),
    );
    for policy in &policies {
        for other in &policies {
            server.command(&["FLUSHALL"]).unwrap();
            let (old, new) = (on(&client, policy), on(&client, other));
            for _ in 0..3 {
                assert!(old.check("key").await.unwrap().is_admitted());
            }
            assert!(!old.check("key").await.unwrap().is_admitted());
            // One fresh allowance if the families differ, none if they are the same. The old process
            // continues as before.
            let is_fresh = policy.families() != other.families();
            for _ in 0..3 {
                let decision = new.check("key").await.unwrap();
                assert_eq!(decision.is_admitted(), is_fresh, "{policy:?} {other:?}");
            }
            assert!(!new.check("key").await.unwrap().is_admitted());
            assert!(!old.check("key").await.unwrap().is_admitted());
        }
    }
}

/// A key that lost its expiry is given one by the next charge. Refusals and peeks write nothing.
#[tokio::test]
async fn a_charge_restores_a_lost_expiry() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    // A queue has the key of GCRA.
    let algorithms =
        Algorithm::one_of_each().filter(|it| !matches!(it, Algorithm::LeakyQueue { .. }));
    for text in algorithms.map(|algorithm| format!("3/min by {algorithm}")) {
        let policy = Policy::parse("api", &text).unwrap();
        let limiter = on(&client, &policy);
        let stored = key_of(&limiter, "key");
        assert!(limiter.check_n("key", Cost::of(2)).await.unwrap().is_admitted());
        assert_eq!(server.command(&["PERSIST", &stored]).unwrap(), ":1", "{text}");
        assert!(!limiter.check_n("key", Cost::of(2)).await.unwrap().is_admitted());
        assert_eq!(limiter.peek("key").await.unwrap().remaining(), 1);
        assert_eq!(server.command(&["PTTL", &stored]).unwrap(), ":-1", "{text}");
        assert!(limiter.check("key").await.unwrap().is_admitted());
        assert_ne!(server.command(&["PTTL", &stored]).unwrap(), ":-1", "{text}");
    }
}

/// A policy with one limit more keeps the states of the others: once, all of them began anew.
#[tokio::test]
async fn a_limit_that_is_added_leaves_the_others_alone() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    let limits = |texts: &[(&str, &str)]| {
        let limits = texts.iter().map(|(name, text)| Policy::parse(name, text).unwrap());
        Policy::all_of("api", limits).unwrap()
    };
    let alone = on(&client, &limits(&[("api", "3/day")]));
    for _ in 0..2 {
        assert!(alone.check("key").await.unwrap().is_admitted());
    }
    let both = on(&client, &limits(&[("api", "3/day"), ("bytes", "100/d by sliding-log")]));
    assert_eq!(both.peek("key").await.unwrap().remaining(), 1);
    assert!(both.check("key").await.unwrap().is_admitted());
    assert!(!alone.check("key").await.unwrap().is_admitted());
    let refusal = both.check("key").await.unwrap();
    assert_eq!((refusal.is_admitted(), refusal.limit_index()), (false, 0));
    // A reset is of all limits.
    both.reset("key").await.unwrap();
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
    assert_eq!(alone.peek("key").await.unwrap().remaining(), 3);
}
