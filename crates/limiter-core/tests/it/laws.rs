//! The laws as properties, in memory, for every algorithm.

use limiter_core::{Policy, algorithm::Resolution::Nanos};
use limiter_test::{
    laws::{self, Law},
    policies::{any_policy, any_several, any_single, any_two_alike, any_window},
    schedule::{Scenario, Time, scenarios, traffic},
    subject::InMemory,
};
use proptest::{prelude::*, test_runner::TestRunner};

/// Tries `law` on limiters in memory of 512 policies each, with up to `most` requests.
fn holds(
    policies: impl Strategy<Value = Policy>,
    time: Time,
    most: usize,
    law: fn(&mut InMemory, &Scenario) -> Law,
) {
    let scenarios = traffic(policies, Nanos, time, most);
    run(&scenarios, |scenario| law(&mut InMemory::new(scenario.policy.clone()), &scenario));
}

fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    // As many as PROPTEST_CASES says, and as many again.
    let default = ProptestConfig::default();
    let cases = 2 * default.cases;
    let max_global_rejects = cases;
    let config = ProptestConfig { cases, max_global_rejects, failure_persistence: None, ..default };
    TestRunner::new(config).run(strategy, law).unwrap();
}

#[test]
fn law_1_never_over() {
    holds(any_policy(), Time::Forward, 60, laws::never_over);
}

#[test]
fn law_1_never_stingy_by_rate() {
    run(&scenarios(Nanos, Time::Forward, 60), |scenario| {
        laws::never_stingy(&mut InMemory::new(scenario.policy.clone()), &scenario)
    });
}

#[test]
fn law_1_windows_follow_their_definition() {
    holds(any_window(), Time::Forward, 60, laws::windows_follow_their_definition);
}

#[test]
fn law_1_reservations_keep_the_bound() {
    holds(any_policy(), Time::Forward, 40, laws::reservations_keep_the_bound);
}

#[test]
fn law_2_refusal_changes_nothing() {
    holds(any_policy(), Time::Forward, 60, laws::refusal_changes_nothing);
}

#[test]
fn law_3_retry_after_is_exact() {
    holds(any_policy(), Time::AnyWay, 40, laws::retry_after_is_exact);
}

#[test]
fn law_4_recovered_equals_absent() {
    holds(any_policy(), Time::Forward, 20, laws::recovered_equals_absent);
}

#[test]
fn law_5_a_clock_that_steps_back_gives_nothing() {
    holds(any_policy(), Time::AnyWay, 60, laws::never_over);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery() {
    holds(any_policy(), Time::AnyWay, 60, laws::no_wait_outlasts_a_recovery);
}

#[test]
fn law_6_all_or_nothing() {
    run(&traffic(any_several(), Nanos, Time::Forward, 20), |scenario| {
        let mut several = InMemory::new(scenario.policy.clone());
        laws::all_or_nothing(&mut several, InMemory::new, &scenario)
    });
}

#[test]
fn law_7_a_refund_gives_back_what_was_taken() {
    holds(any_policy(), Time::Forward, 40, laws::a_refund_gives_back_what_was_taken);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken() {
    holds(any_policy(), Time::AnyWay, 60, laws::a_refund_gives_back_no_more_than_was_taken);
}

#[test]
fn law_7_refunds_never_lift_above_the_bound() {
    holds(any_policy(), Time::Forward, 60, laws::refunds_never_lift_above_the_bound);
}

#[test]
fn law_9_a_changed_quota_keeps_the_debt() {
    let two = any_two_alike()
        .prop_flat_map(|(one, other)| (traffic(Just(one), Nanos, Time::Forward, 40), Just(other)));
    run(&two, |(scenario, other)| {
        let mut limiter = InMemory::new(scenario.policy.clone());
        laws::a_changed_quota_keeps_the_debt(&mut limiter, &scenario, &other)
    });
}

#[test]
fn law_9_tiers_never_add_up() {
    let two = any_two_alike()
        .prop_flat_map(|(one, other)| (traffic(Just(one), Nanos, Time::Forward, 40), Just(other)));
    run(&two, |(scenario, other)| {
        let policy = scenario.policy.clone().with_tier(other.clone()).unwrap();
        laws::tiers_never_add_up(&mut InMemory::new(policy), &scenario, &other)
    });
}

#[test]
fn law_9_tiers_keep_what_was_promised() {
    let two = any_two_alike()
        .prop_flat_map(|(one, other)| (traffic(Just(one), Nanos, Time::Forward, 40), Just(other)));
    run(&two, |(scenario, other)| {
        let policy = scenario.policy.clone().with_tier(other.clone()).unwrap();
        laws::tiers_keep_what_was_promised(&mut InMemory::new(policy), &scenario, &other)
    });
}

#[test]
fn law_10_decisions_are_coherent() {
    holds(any_policy(), Time::AnyWay, 60, laws::decisions_are_coherent);
    holds(any_single(), Time::AnyWay, 60, laws::decisions_are_coherent);
}
