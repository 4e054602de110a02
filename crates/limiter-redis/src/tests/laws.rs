//! The laws as properties of the scripts, for every algorithm.

use std::slice;

use limiter_core::{Algorithm, Cost, Policy, Quota};
use limiter_test::{
    laws::{self, Law},
    policies::{any_alike, any_several_alike, any_single, any_window},
    properties,
    schedule::{Scenario, Step, Tick, Time, mixed, scenarios, traffic},
    subject::Subject,
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::store::Store;

type OneLimiter = fn(&mut dyn Subject, &Scenario) -> Law;

/// Tries a law with policies that take turns on one key, up to three of them.
fn holds(law: OneLimiter, time: Time, most: usize) {
    check(&mixed(any_alike(), Tick::Micro, time, most), law);
}

fn holds_for(law: OneLimiter, policies: impl Strategy<Value = Policy>, time: Time, most: usize) {
    check(&traffic(policies, Tick::Micro, time, most), law);
}

fn check(scenarios: &impl Strategy<Value = Scenario>, law: OneLimiter) {
    run(scenarios, |scenario| {
        // One for each, because gaps of years add up to more than a clock can show.
        let store = Store::new();
        let policies: Vec<_> = scenario.policies().cloned().collect();
        law(&mut store.limiter_for(&policies), &scenario)
    });
}

fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    TestRunner::new(properties::config(file!(), 128)).run(strategy, law).unwrap();
}

#[test]
fn law_1_never_over() {
    holds(laws::never_over, Time::Forward, 60);
}

#[test]
fn law_1_never_stingy_by_rate() {
    check(&scenarios(Tick::Micro, Time::Forward, 60), laws::never_stingy);
}

#[test]
fn law_1_windows_follow_their_definition() {
    holds_for(laws::windows_follow_their_definition, any_window(), Time::Forward, 60);
}

#[test]
fn law_1_reservations_keep_the_bound() {
    holds(laws::reservations_keep_the_bound, Time::Forward, 40);
}

/// The moments are whole microseconds, so a queue of 1.2 us has debts that are due after 2 us.
#[test]
fn law_1_a_queue_shorter_than_a_microsecond_keeps_its_order() {
    let quota = Quota::per_second(5_000_000).with_burst(2);
    let policy = Policy::new("test", Algorithm::LeakyQueue { depth: 6 }, quota).unwrap();
    let steps = [2, 1, 2, 1].map(|cost| Step { gap: 0, cost: Cost::new(cost).unwrap(), turn: 0 });
    let scenario = Scenario { policy: policy.clone(), others: Vec::new(), steps: steps.to_vec() };
    laws::reservations_keep_the_bound(&mut Store::new().limiter(policy), &scenario).unwrap();
}

#[test]
fn law_1_taking_takes_what_fits() {
    holds(laws::taking_takes_what_fits, Time::Forward, 40);
}

#[test]
fn law_1_charges_afterwards_keep_the_bound() {
    holds(laws::charges_afterwards_keep_the_bound, Time::Forward, 60);
}

#[test]
fn law_1_charges_follow_the_definition() {
    holds_for(laws::charges_follow_the_definition, any_window(), Time::Forward, 60);
}

#[test]
fn law_3_waits_after_a_charge_are_exact() {
    holds(laws::waits_after_a_charge_are_exact, Time::AnyWay, 40);
}

#[test]
fn law_2_refusal_changes_nothing() {
    holds(laws::refusal_changes_nothing, Time::Forward, 60);
}

#[test]
fn law_3_retry_after_is_exact() {
    holds(laws::retry_after_is_exact, Time::AnyWay, 40);
}

#[test]
fn law_4_recovered_equals_absent() {
    holds(laws::recovered_equals_absent, Time::Forward, 20);
}

#[test]
fn law_5_a_clock_that_steps_back_gives_nothing() {
    holds(laws::never_over, Time::AnyWay, 60);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery() {
    holds(laws::no_wait_outlasts_a_recovery, Time::AnyWay, 60);
}

/// The debt of a step back of 4 us, of a queue whose burst and depth take 1.8 us, is possible.
#[test]
fn law_5_a_step_back_costs_a_queue_of_microseconds_ten_of_them() {
    let policy = Policy::parse("test", "5000/ms burst 5 by leaky-queue depth 4").unwrap();
    let steps = [0, -4_000].map(|gap| Step { gap, cost: Cost::ONE, turn: 0 });
    let scenario = Scenario { policy: policy.clone(), others: Vec::new(), steps: steps.to_vec() };
    laws::no_wait_outlasts_a_recovery(&mut Store::new().limiter(policy), &scenario).unwrap();
}

#[test]
fn law_6_all_or_nothing() {
    let store = Store::new();
    run(&mixed(any_several_alike(), Tick::Micro, Time::Forward, 12), |scenario| {
        let policies: Vec<_> = scenario.policies().cloned().collect();
        let mut several = store.limiter_for(&policies);
        // With the slots of all policies, as the limiter has them.
        let make = |policy| store.limiter_for(&[slice::from_ref(&policy), &policies].concat());
        laws::all_or_nothing(&mut several, make, &scenario)
    });
}

#[test]
fn law_7_a_refund_gives_back_what_was_taken() {
    holds(laws::a_refund_gives_back_what_was_taken, Time::Forward, 40);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken() {
    holds(laws::a_refund_gives_back_no_more_than_was_taken, Time::AnyWay, 60);
}

#[test]
fn law_7_refunds_never_lift_above_the_bound() {
    holds(laws::refunds_never_lift_above_the_bound, Time::Forward, 60);
}

#[test]
fn law_9_a_changed_quota_keeps_what_is_used() {
    holds(laws::a_changed_quota_keeps_what_is_used, Time::Forward, 40);
}

#[test]
fn law_9_a_handle_enforces_the_policy_that_it_reports() {
    let store = Store::new();
    run(&mixed(any_alike(), Tick::Micro, Time::AnyWay, 40), |scenario| {
        let policies: Vec<_> = scenario.policies().cloned().collect();
        let mut limiter = store.limiter_for(&policies);
        // With the slots of all policies, as the limiter has them.
        let make = |policy| store.limiter_for(&[slice::from_ref(&policy), &policies].concat());
        laws::a_handle_enforces_the_policy_that_it_reports(&mut limiter, make, &scenario)
    });
}

#[test]
fn law_10_decisions_are_coherent() {
    holds(laws::decisions_are_coherent, Time::AnyWay, 60);
    holds_for(laws::decisions_are_coherent, any_single(), Time::AnyWay, 60);
}
