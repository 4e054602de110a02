//! Checks that are made at the same moment: they are decided as if they had come one after the other,
//! and no runtime's end or rest is felt by another.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures::poll;
use limiter_core::{Cost, ErrorKind, Policy, Timestamp};
use limiter_test::{policies::any_policy, server, subject::Subject};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use tokio::runtime::{Builder, Runtime};

use super::store::{Store, unique};
use crate::{RedisLimiter, connect};

#[test]
fn a_batch_decides_as_its_checks_do_one_after_the_other() {
    let store = Store::new();
    let cost = prop_oneof![3 => Just(1_u64), 1 => 1..=4_u64];
    // How many parts of a window pass, then some keys and costs.
    let moments = vec((0..=60_u32, vec((0..4_u8, cost), 2..=12)), 1..=12);
    let cases = ProptestConfig::default().cases.div_ceil(4);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&(any_policy(), moments), |(policy, moments)| {
        let (together, mut alone) = (store.limiter(policy.clone()), store.limiter(policy.clone()));
        let part = policy.limits()[0].quota().window() / 50;
        let mut now = Timestamp::ZERO;
        for (parts, checks) in moments {
            now = now.saturating_add(part * parts);
            let checks = checks.into_iter().map(|(key, cost)| {
                (format!("key-{key}"), Cost::new(cost).expect("a cost is not zero"))
            });
            let checks: Vec<_> = checks.collect();
            let expected: Vec<_> =
                checks.iter().map(|(key, cost)| alone.decide(now, key, *cost)).collect();
            prop_assert_eq!(together.decide_together(now, &checks), expected);
            for (key, _) in &checks {
                prop_assert_eq!(together.state(key), alone.state(key));
            }
        }
        Ok(())
    });
    result.unwrap();
}

/// Returns a runtime on which the connection is served, and a limiter of three permits.
fn limiter() -> (Runtime, RedisLimiter) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connection = runtime.block_on(connect(&server::shared_url())).unwrap();
    let limiter = RedisLimiter::builder(connection, Policy::parse("test", "3/day").unwrap());
    let limiter = limiter.prefix(&unique()).deadline(Duration::from_secs(10)).build().unwrap();
    (runtime, limiter)
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_check_of_a_caller_who_leaves_before_it_is_sent_is_not_sent() {
    let (_connected, limiter) = limiter();
    one_thread().block_on(async {
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
fn a_runtime_that_ends_leaves_no_check_waiting() {
    let (connected, limiter) = limiter();
    let ended = one_thread();
    let mut left = limiter.check("key");
    ended.block_on(async { assert!(poll!(&mut left).is_pending()) });
    drop(ended);
    let start = Instant::now();
    let error = connected.block_on(left).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undetermined);
    assert!(connected.block_on(limiter.check("key")).unwrap().is_admitted());
    assert!(one_thread().block_on(limiter.check("key")).unwrap().is_admitted());
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_runtime_that_stands_still_holds_up_no_other() {
    let (connected, limiter) = limiter();
    let still = one_thread();
    let mut first = pin!(limiter.check("key"));
    still.block_on(async { assert!(poll!(&mut first).is_pending()) });
    let decision = connected.block_on(limiter.check("key")).unwrap();
    assert_eq!(decision.remaining(), 2);
    // It goes on where it was.
    assert_eq!(still.block_on(first).unwrap().remaining(), 1);
}
