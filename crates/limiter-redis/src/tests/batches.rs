//! Checks that are made at the same moment: they are decided as if they were made one after the other,
//! and none waits for a runtime that ended.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::poll;
use limiter_core::{Algorithm, Cost, ErrorKind, Policy, Timestamp};
use limiter_rig::server;
use limiter_test::{policies::any_policy, properties, subject::Subject};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use tokio::runtime::{Builder, Runtime};

use super::store::{Store, on, unique};
use crate::{RedisLimiter, connect_with};

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
            // What a log's own script leaves undecided is decided behind the other checks of the batch.
            let (is_log, mut seen) = (has_log(&policy), BTreeSet::new());
            checks.retain(|(key, _)| !is_log || seen.insert(key.clone()));
            let expected: Vec<_> =
                checks.iter().map(|(key, cost)| alone.decide(now, key, *cost)).collect();
            prop_assert_eq!(together.decide_together(now, &checks), expected);
            for (key, _) in &checks {
                prop_assert_eq!(together.states(key), alone.states(key));
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

/// Returns a limiter of three permits whose connection runs on `runtime`, which has one thread.
fn limiter_on(runtime: &Runtime) -> RedisLimiter {
    let (url, options) = (server::shared_url(), on(runtime));
    let connection = runtime.block_on(connect_with(&url, &options)).unwrap();
    let limiter = RedisLimiter::builder(Policy::parse("test", "3/day").unwrap());
    limiter.prefix(&unique()).deadline(Duration::from_secs(10)).build_on(connection).unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_check_of_a_caller_who_leaves_before_it_is_sent_is_not_sent() {
    let runtime = one_thread();
    let limiter = limiter_on(&runtime);
    runtime.block_on(async {
        for _ in 0..3 {
            let mut check = limiter.check("key");
            assert!(poll!(&mut check).is_pending());
        }
        // It is sent after them.
        let decision = limiter.check("key").await.unwrap();
        assert_eq!((decision.is_admitted(), decision.remaining()), (true, 2));
    });
}

#[test]
fn a_connection_whose_runtime_ended_leaves_no_check_waiting() {
    let (connected, caller) = (one_thread(), one_thread());
    let limiter = limiter_on(&connected);
    let mut queued = limiter.check("key");
    caller.block_on(async { assert!(poll!(&mut queued).is_pending()) });
    drop(connected);
    let start = Instant::now();
    for check in [queued, limiter.check("key"), limiter.check("key")] {
        assert_eq!(caller.block_on(check).unwrap_err().kind(), ErrorKind::Undetermined);
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}
