//! The laws as properties of the scripts, on a real server, for every algorithm.

use std::time::Duration;

use limiter_core::{Cost, Kind, Limit, Policy, algorithm::Resolution::Micros};
use limiter_test::{
    laws::{self, Law},
    policies::{any_policy, any_several, any_single, any_two_alike, any_window},
    schedule::{Scenario, Time, scenarios, traffic},
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::store::{InRedis, Store};
use crate::scripts::{PRELUDE, Plan};

/// Tries `law` on limiters in Redis of random policies, with up to `most` requests.
fn holds(
    policies: impl Strategy<Value = Policy>,
    time: Time,
    most: usize,
    law: fn(&mut InRedis, &Scenario) -> Law,
) {
    let store = Store::new();
    let scenarios = traffic(supported(policies), Micros, time, most);
    run(&scenarios, |scenario| law(&mut store.limiter(scenario.policy.clone()), &scenario));
}

fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    // A quarter of what PROPTEST_CASES says: each request is a round trip.
    let default = ProptestConfig::default();
    let cases = default.cases / 4;
    let max_global_rejects = cases;
    let config = ProptestConfig { cases, max_global_rejects, failure_persistence: None, ..default };
    TestRunner::new(config).run(strategy, law).unwrap();
}

fn supported(policies: impl Strategy<Value = Policy>) -> impl Strategy<Value = Policy> {
    policies.prop_filter("no script", is_supported)
}

fn is_supported(policy: &Policy) -> bool {
    Plan::new(PRELUDE, policy).is_ok()
}

#[test]
fn law_1_never_over() {
    holds(any_policy(), Time::Forward, 60, laws::never_over);
}

#[test]
fn law_1_never_stingy_by_rate() {
    let store = Store::new();
    run(&scenarios(Micros, Time::Forward, 60), |scenario| {
        laws::never_stingy(&mut store.limiter(scenario.policy.clone()), &scenario)
    });
}

#[test]
fn law_1_windows_follow_their_definition() {
    holds(any_window(), Time::Forward, 60, laws::windows_follow_their_definition);
}

#[test]
fn law_1_reservations_keep_the_bound() {
    let policies = supported(any_policy()).prop_filter("a short line", promises_three_windows);
    holds(policies, Time::Forward, 40, laws::reservations_keep_the_bound);
}

/// Very many permits are promised for less than that, so that a double still counts their debt.
fn promises_three_windows(policy: &Policy) -> bool {
    let is_queue = |limit: &Limit| matches!(limit.kind(), Kind::LeakyQueue { .. });
    let plan = Plan::new(PRELUDE, policy).unwrap();
    let longest = plan.take(0, Cost::ONE, Duration::MAX).arguments[1];
    let windows = policy.limits()[0].quota().window() * 3;
    policy.limits().iter().any(is_queue) || i128::from(longest) >= windows.as_micros().cast_signed()
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
    let store = Store::new();
    run(&traffic(supported(any_several()), Micros, Time::Forward, 12), |scenario| {
        let mut several = store.limiter(scenario.policy.clone());
        laws::all_or_nothing(&mut several, |policy| store.limiter(policy), &scenario)
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
    let store = Store::new();
    let two = any_two_alike()
        .prop_filter("no script", |(one, other)| is_supported(one) && is_supported(other))
        .prop_flat_map(|(one, other)| (traffic(Just(one), Micros, Time::Forward, 40), Just(other)));
    run(&two, |(scenario, other)| {
        let mut limiter = store.limiter(scenario.policy.clone());
        laws::a_changed_quota_keeps_the_debt(&mut limiter, &scenario, &other)
    });
}

#[test]
fn law_9_tiers_never_add_up() {
    with_tiers(laws::tiers_never_add_up);
}

#[test]
fn law_9_tiers_keep_what_was_promised() {
    with_tiers(laws::tiers_keep_what_was_promised);
}

/// Tries `law` on policies with a tier.
fn with_tiers(law: fn(&mut InRedis, &Scenario, &Policy) -> Law) {
    let store = Store::new();
    let with_tier = |one: &Policy, other: &Policy| one.clone().with_tier(other.clone()).unwrap();
    let two = any_two_alike()
        .prop_filter("no script", move |(one, other)| is_supported(&with_tier(one, other)))
        .prop_flat_map(|(one, other)| (traffic(Just(one), Micros, Time::Forward, 40), Just(other)));
    run(&two, |(scenario, other)| {
        let policy = with_tier(&scenario.policy, &other);
        law(&mut store.limiter(policy), &scenario, &other)
    });
}

#[test]
fn law_10_decisions_are_coherent() {
    holds(any_policy(), Time::AnyWay, 60, laws::decisions_are_coherent);
    holds(any_single(), Time::AnyWay, 60, laws::decisions_are_coherent);
}
