//! Memory and Redis take the same decisions, wherever both hold a quota exactly.

use std::time::Duration;

use limiter_core::{Decision, Policy, Quota, algorithm::Resolution::Micros};
use limiter_test::{
    schedule::{Scenario, Time, scenarios},
    subject::{InMemory, Subject},
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::store::Store;

/// Returns a quota near `quota` whose interval is a whole number of sixteenths of a nanosecond.
fn exact_in_memory(quota: Quota) -> Option<Quota> {
    let ticks = quota.window().as_nanos() * 16;
    let (mut permits, mut rest) = (u128::from(quota.permits()), ticks);
    while rest != 0 {
        (permits, rest) = (rest, permits % rest);
    }
    let near = Quota::per(u64::try_from(permits).unwrap(), quota.window()).unwrap();
    near.with_burst(quota.burst()).ok()
}

/// Redis waits in whole microseconds.
fn in_micros(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap())
}

fn rounded(decision: &Decision) -> (bool, u64, u64, Option<Duration>, Duration) {
    (
        decision.is_admitted(),
        decision.limit(),
        decision.remaining(),
        decision.retry_after().map(in_micros),
        in_micros(decision.reset_after()),
    )
}

#[test]
fn memory_and_redis_agree_step_by_step() {
    let store = Store::new();
    let scenarios = scenarios(Micros, Time::AnyWay, 60).prop_filter_map("inexact", |scenario| {
        let policy = Policy::gcra("test", exact_in_memory(scenario.quota())?).ok()?;
        Some(Scenario { policy, steps: scenario.steps })
    });
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() };
    let law = |scenario: Scenario| {
        let mut memory = InMemory::new(scenario.policy.clone());
        let mut redis = store.limiter(scenario.policy.clone());
        for (now, cost) in scenario.requests() {
            let by_memory = memory.decide(now, "key", cost);
            let by_redis = redis.decide(now, "key", cost);
            prop_assert_eq!(rounded(&by_memory), rounded(&by_redis), "at {:?}", now);
        }
        Ok(())
    };
    TestRunner::new(config).run(&scenarios, law).unwrap();
}
