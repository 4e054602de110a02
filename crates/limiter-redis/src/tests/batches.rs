//! Checks that are made at the same moment are decided as if they were made one after the other.

use std::{collections::BTreeSet, time::Duration};

use futures::{FutureExt as _, future::try_join_all};
use limiter_core::{Algorithm, Cost, Policy, Timestamp};
use limiter_test::{policies::any_policy, properties, subject::Subject};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};

use super::store::{Store, decide_together, states, unique};

#[test]
fn a_batch_decides_as_its_checks_do_one_after_the_other() {
    let store = Store::new();
    let cost = prop_oneof![3 => Just(1_u64), 1 => 1..=4_u64];
    // How many parts of a window pass, then some keys and costs.
    let moments = vec((0..=60_u32, vec((0..4_u8, cost), 2..=12)), 1..=12);
    let config = properties::config(file!(), 64);
    let result = TestRunner::new(config).run(&(any_policy(), moments), |(policy, moments)| {
        let (together, mut alone) = (store.limiter(policy.clone()), store.limiter(policy.clone()));
        let part = policy.limits()[0].quota().window() / 50;
        let mut now = Timestamp::ZERO;
        for (parts, checks) in moments {
            now = now.saturating_add(part * parts);
            let checks = checks.into_iter().map(|(key, cost)| {
                (format!("key-{key}"), Cost::new(cost).expect("a cost is not zero"))
            });
            let mut checks: Vec<_> = checks.collect();
            // A key with a log has one check in a batch: more go in calls of their own, behind the others.
            let (is_log, mut seen) = (has_log(&policy), BTreeSet::new());
            checks.retain(|(key, _)| !is_log || seen.insert(key.clone()));
            let expected: Vec<_> =
                checks.iter().map(|(key, cost)| alone.decide(now, key, *cost)).collect();
            prop_assert_eq!(decide_together(&together, now, &checks), expected);
            for (key, _) in &checks {
                prop_assert_eq!(states(&together, key), states(&alone, key));
            }
        }
        Ok(())
    });
    result.unwrap();
}

fn has_log(policy: &Policy) -> bool {
    let is_log = |algorithm| matches!(algorithm, Algorithm::SlidingLog | Algorithm::SubWindows(_));
    policy.limits().iter().any(|limit| is_log(limit.algorithm()))
}

/// It is sent after those of others who have not left.
#[test]
fn the_check_of_a_caller_who_leaves_before_it_is_sent_is_not_sent() {
    let store = Store::new();
    let policy = Policy::parse("test", "3/day").unwrap();
    let limiter = store.limiter_of(&unique(), &policy, 0);
    for _ in 0..3 {
        assert!(limiter.check("key").now_or_never().is_none());
    }
    let decision = store.block_on(limiter.check("key")).unwrap();
    assert_eq!((decision.is_admitted(), decision.remaining()), (true, 2));
}

/// Each limiter had a queue of its own, so that twenty limiters sent twenty calls.
#[test]
fn limiters_on_one_client_share_calls() {
    let store = Store::new();
    let policy = |name: &str| Policy::parse(name, "1/min").unwrap();
    let limiter = |name: &str, deadline| {
        store.limiter_with(&unique(), &policy(name), |it| it.deadline(deadline))
    };
    let short = Duration::from_millis(20);
    let limiters: Vec<_> =
        (0..20).map(|number| limiter(&number.to_string(), Duration::from_secs(1))).collect();
    let others = [limiter("hasty", short), limiter("hasty", short)];
    store.client.sent();
    let all = limiters.iter().chain(&others);
    let checks: Vec<_> = all.clone().map(|limiter| limiter.check("alice")).collect();
    let decisions = store.block_on(try_join_all(checks)).unwrap();
    assert!(decisions.iter().all(limiter_core::Decision::is_admitted));
    // A call has one deadline.
    assert_eq!(store.client.sent().len(), 2);
    for limiter in all {
        assert!(!store.block_on(limiter.check("alice")).unwrap().is_admitted());
        let counters = limiter.counters();
        assert_eq!((counters.admitted, counters.refused), (1, 1));
    }
}
