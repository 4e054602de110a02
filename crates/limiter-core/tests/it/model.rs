//! GCRA against its model: quotas in turn on one key, with reservations and refunds.

use std::time::Duration;

use limiter_core::{Algorithm, Policy, Quota};
use limiter_test::{
    laws,
    schedule::{Scenario, Tick, Time, mixed},
    subject::{Bare, InMemory},
};
use proptest::{collection::vec, option, prelude::*};

fn quotas() -> impl Strategy<Value = Quota> {
    let permits = prop_oneof![Just(1), Just(3), Just(7), Just(125), Just(997), Just(3_125)];
    let window_ms = prop_oneof![1..=4_u64, Just(1_000), Just(3_600), Just(6_000_000)];
    let burst = prop_oneof![Just(1), Just(2), Just(5), Just(10), Just(100)];
    (permits, window_ms, burst).prop_map(|(permits, window_ms, burst)| {
        let quota = Quota::new(permits, Duration::from_millis(window_ms)).unwrap();
        quota.try_with_burst(burst).unwrap()
    })
}

/// Returns up to three policies of one span.
fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let horizon_ms = option::of(prop_oneof![Just(0), Just(1), Just(10_000)]);
    let queue = option::weighted(0.2, 0..10_u64);
    let factors = vec(1..=4_u64, 1..=3);
    (quotas(), horizon_ms, queue, factors).prop_map(|(quota, horizon_ms, queue, factors)| {
        let policies = factors.into_iter().map(|factor| {
            let scaled = Quota::new(quota.permits() * factor, quota.window());
            let scaled = scaled.and_then(|it| it.try_with_burst(quota.burst() * factor));
            let quota = scaled.unwrap_or(quota);
            let depth = queue.map(|depth| depth * factor);
            if let Some(depth) = depth {
                return Policy::new("queue", Algorithm::LeakyQueue { depth }, quota).unwrap();
            }
            let policy = Policy::gcra("test", quota);
            match horizon_ms {
                Some(horizon) => policy.with_horizon(Duration::from_millis(horizon)).unwrap(),
                None => policy,
            }
        });
        let policies: Vec<Policy> = policies.collect();
        let first = policies.first().map(|policy| policy.identities().to_vec()).unwrap_or_default();
        policies.into_iter().filter(|policy| policy.identities() == first).collect()
    })
}

fn schedules(time: Time) -> impl Strategy<Value = Scenario> {
    mixed(policies(), Tick::Nano, time, 120)
}

proptest! {
    #[test]
    fn the_transition_follows_the_model(scenario in schedules(Time::AnyWay)) {
        laws::gcra_follows_its_model(&mut Bare::new(scenario.policy.clone()), &scenario)?;
    }

    #[test]
    fn the_bound_holds_with_reservations_and_refunds(scenario in schedules(Time::Forward)) {
        let mut bare = Bare::new(scenario.policy.clone());
        laws::refunds_never_lift_above_the_bound(&mut bare, &scenario)?;
    }

    #[test]
    fn the_limiter_in_memory_follows_the_model(scenario in schedules(Time::AnyWay)) {
        laws::gcra_follows_its_model(&mut InMemory::new(scenario.policy.clone()), &scenario)?;
    }
}
