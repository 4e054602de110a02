//! Policies that change while keys are in use, keys whose expiry is lost, and values of another type.

use std::time::Duration;

use futures::future::join_all;
use limiter_core::{Algorithm, Cost, ErrorKind, Limit, Policy, Quota};
use limiter_double::Reply;
use limiter_test::bounds::cases::policies;

use super::store::{Store, policy, unique};

/// Policies of one name, by each algorithm and of two spans. Conformance rows have other quotas of one span.
#[test]
fn limits_of_one_identity_share_what_is_used_and_others_begin_fresh() {
    let of_each = |span: &str| {
        let policy = |algorithm| policy(&format!("3/{span} by {algorithm}"));
        Algorithm::one_of_each().map(policy).collect::<Vec<_>>()
    };
    let mut policies = [of_each("day"), of_each("2d")].concat();
    policies.push(policy("3/day, 30/2d by sliding-log"));
    for policy in &policies {
        for other in &policies {
            let (store, prefix) = (Store::new(), unique());
            let [old, new] = [policy, other].map(|policy| store.limiter_of(&prefix, policy, 0));
            let takes = |limiter: &crate::RedisLimiter<_>| {
                [(); 4].map(|()| store.block_on(limiter.check("key")).unwrap().is_admitted())
            };
            assert_eq!(takes(&old), [true, true, true, false]);
            let is_fresh = policy.identities() != other.identities();
            let expected = [is_fresh, is_fresh, is_fresh, false];
            assert_eq!(takes(&new), expected, "{policy:?} {other:?}");
            assert_eq!(takes(&old), [false; 4]);
        }
    }
}

/// A policy with one limit more keeps the states of the others: once, all of them began anew.
#[test]
fn a_limit_that_is_added_leaves_the_others_alone() {
    let (store, prefix) = (Store::new(), unique());
    let limiter = |limits: &[(&str, &str)]| {
        let limits = limits.iter().map(|(name, text)| Policy::parse(name, text).unwrap());
        store.limiter_of(&prefix, &Policy::all_of("api", limits).unwrap(), 0)
    };
    let alone = limiter(&[("api", "3/day")]);
    let both = limiter(&[("api", "3/day"), ("bytes", "100/d by sliding-log")]);
    assert!(store.block_on(alone.check_n("key", Cost::of(2))).unwrap().is_admitted());
    assert_eq!(store.block_on(both.peek("key")).unwrap().remaining(), 1);
    assert!(store.block_on(both.check("key")).unwrap().is_admitted());
    assert!(!store.block_on(alone.check("key")).unwrap().is_admitted());
    let refusal = store.block_on(both.check("key")).unwrap();
    assert_eq!((refusal.is_admitted(), refusal.limit_index()), (false, 0));
    // A reset is of all limits.
    store.block_on(both.reset("key")).unwrap();
    store.client.set_up(|server| assert_eq!(server.keys().count(), 0));
    assert_eq!(store.block_on(alone.peek("key")).unwrap().remaining(), 3);
}

/// A key that lost its expiry is given one by the next charge. Refusals and peeks write nothing.
#[test]
fn a_charge_restores_a_lost_expiry() {
    for algorithm in Algorithm::one_of_each() {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &policy(&format!("3/min by {algorithm}")), 0);
        let key = limiter.stored_keys("key").unwrap().remove(0);
        let check = |cost| store.block_on(limiter.check_n("key", Cost::of(cost))).unwrap();
        let expires = || store.client.stored(&key).unwrap().expires_at.is_some();
        assert!(check(2).is_admitted() && expires());
        store.client.execute(&[b"PERSIST".as_slice(), &key]);
        assert!(!check(20).is_admitted());
        assert_eq!(store.block_on(limiter.peek("key")).unwrap().used(), 2);
        assert!(!expires(), "{algorithm}");
        assert!(check(1).is_admitted() && expires(), "{algorithm}");
    }
}

fn is_log(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::SubWindows(_) | Algorithm::SlidingLog)
}

/// Someone else has written it. It fails its own check alone, and is left as it is until the key is reset.
#[test]
fn a_value_of_another_type_is_an_error_and_is_left_alone() {
    let plants: [&[&str]; 4] =
        [&["SET", "1"], &["RPUSH", "1"], &["HSET", "1", "1"], &["ZADD", "1", "1"]];
    for (name, policy) in policies() {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &policy, 0);
        let keys = limiter.stored_keys("foreign").unwrap();
        let has_hash = !limiter.policy().limits().iter().all(is_log);
        for (place, key) in keys.iter().enumerate() {
            let own = if has_hash && place == 0 { "HSET" } else { "RPUSH" };
            for plant in plants.into_iter().filter(|plant| plant[0] != own) {
                store.block_on(limiter.reset("foreign")).unwrap();
                let words = plant[1..].iter().map(|word| word.as_bytes());
                let words: Vec<_> = [plant[0].as_bytes(), key].into_iter().chain(words).collect();
                assert!(!matches!(store.client.execute(&words), Reply::Error(_)));
                let planted = store.client.stored(key);
                for keys in [["a", "b", "foreign"], ["foreign", "a", "b"], ["a", "foreign", "b"]] {
                    // At the same moment, so that they are one batch.
                    let checks = join_all(keys.map(|key| limiter.check(key)));
                    for (key, result) in keys.iter().zip(store.block_on(checks)) {
                        let Err(error) = result else { continue };
                        assert_eq!(*key, "foreign", "{name}: {error}");
                        assert_eq!(error.kind(), ErrorKind::Unexpected, "{name}: {error}");
                        assert!(error.to_string().contains("WRONGTYPE "), "{name}: {error}");
                    }
                }
                assert_eq!(store.client.stored(key), planted, "{name}");
                assert_eq!(limiter.counters().unexpected % 3, 0, "{name}");
            }
        }
        assert_eq!(limiter.counters().breaker_opened, 0);
        store.block_on(limiter.reset("foreign")).unwrap();
        let fresh = store.block_on(limiter.peek("foreign")).unwrap();
        assert_eq!(fresh.reset_after(), Duration::ZERO);
    }
}

/// A quota for each customer, all checked at the same moment.
#[test]
fn checks_under_different_quotas_share_a_call() {
    // A log has fewer checks in a call.
    for (text, calls) in [
        ("1/d", 10),
        ("1/d by fixed-window", 10),
        ("1/d by sliding-counter", 10),
        ("1/d by sliding-log", 20),
    ] {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &policy(text), 0);
        let customers = (1..=320_u64).map(|permits| {
            let quota = |limit: &Limit| Ok((limit.algorithm(), Quota::per_day(permits + 1)));
            limiter.with_policy(&policy(text).with_quotas(quota).unwrap()).unwrap().check(permits)
        });
        let decisions = store.block_on(join_all(customers.collect::<Vec<_>>()));
        for (decision, permits) in decisions.into_iter().zip(1..) {
            assert_eq!(decision.unwrap().remaining(), permits, "{text}");
        }
        assert_eq!(store.client.sent().len(), calls, "{text}");
    }
}
