//! Policies that change while keys are in use, and keys whose expiry is lost.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Policy};
use limiter_redis::{Connection, RedisLimiter, connect};
use limiter_rig::server::Server;

use crate::key_of;

/// Returns a limiter that asks the server for each check.
fn on(client: &Connection, policy: &Policy) -> RedisLimiter {
    let builder = RedisLimiter::builder(policy.clone()).denial_cache(0);
    builder.deadline(Duration::from_secs(10)).build_on(client.clone()).unwrap()
}

/// Policies of one name, by each algorithm and of two spans. Conformance rows have other quotas of one span.
#[tokio::test]
async fn limits_of_one_identity_share_what_is_used_and_others_begin_fresh() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    let single = |text: &str| Policy::parse("api", text).unwrap();
    let of_each = |span: &str| {
        let policy = |algorithm| single(&format!("3/{span} by {algorithm}"));
        Algorithm::one_of_each().map(policy).collect::<Vec<_>>()
    };
    let mut policies = [of_each("day"), of_each("2d")].concat();
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
            let is_fresh = policy.identities() != other.identities();
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
    // A queue has the field of GCRA.
    let algorithms =
        Algorithm::one_of_each().filter(|it| !matches!(it, Algorithm::LeakyQueue { .. }));
    for text in algorithms.map(|algorithm| format!("3/min by {algorithm}")) {
        server.command(&["FLUSHALL"]).unwrap();
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
