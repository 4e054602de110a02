//! The laws as properties, for every algorithm: of the transitions alone, and of the limiter in memory.

use limiter_core::Policy;
use limiter_test::{
    laws::{self, Law},
    policies::{
        any_alike, any_policy, any_several_alike, any_single, any_singles_alike, any_window,
    },
    properties,
    schedule::{Scenario, Tick, Time, mixed, scenarios, traffic},
    subject::{Bare, InMemory, Subject, crowded},
};
use proptest::{prelude::*, test_runner::TestRunner};

type OneLimiter = fn(&mut dyn Subject, &Scenario) -> Law;

/// Tries a law with policies that take turns on one key, up to three of them.
fn holds(law: OneLimiter, time: Time, most: usize) {
    check(law, &mixed(any_alike(), Tick::Nano, time, most));
}

/// Tries a law with one policy at a time.
fn holds_for_one(
    law: OneLimiter,
    policies: impl Strategy<Value = Policy>,
    time: Time,
    most: usize,
) {
    check(law, &traffic(policies, Tick::Nano, time, most));
}

fn check(law: OneLimiter, scenarios: &impl Strategy<Value = Scenario>) {
    run(scenarios, |scenario| {
        law(&mut Bare::new(scenario.policy.clone()), &scenario)?;
        law(&mut InMemory::new(scenario.policy.clone()), &scenario)
    });
}

/// Tries a law in tables that are too small: before each of the first `rounds` requests, other keys
/// are charged by the same policies, so that the key may find no slot.
/// Only with single limits, because a key needs a slot for each of several, and not all are free at once.
fn holds_in_full_tables(law: OneLimiter, time: Time, rounds: usize) {
    let rooms = prop_oneof![4 => 1..=3_usize, 1 => 4..=64_usize];
    let scenarios = mixed(any_singles_alike(), Tick::Nano, time, 30);
    run(&(rooms, scenarios), |(room, scenario)| {
        let policies = scenario.policies().cloned().collect();
        law(&mut crowded(room, policies, rounds), &scenario)
    });
}

#[test]
fn law_1_never_over_in_full_tables() {
    holds_in_full_tables(laws::never_over, Time::Forward, usize::MAX);
}

#[test]
fn law_1_reservations_keep_the_bound_in_full_tables() {
    holds_in_full_tables(laws::reservations_keep_the_bound, Time::Forward, usize::MAX);
}

#[test]
fn law_3_retry_after_is_exact_in_full_tables() {
    holds_in_full_tables(laws::retry_after_is_exact, Time::AnyWay, 1);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery_in_full_tables() {
    holds_in_full_tables(laws::no_wait_outlasts_a_recovery, Time::AnyWay, usize::MAX);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken_in_full_tables() {
    holds_in_full_tables(laws::a_refund_gives_back_no_more_than_was_taken, Time::AnyWay, 2);
}

#[test]
fn law_10_decisions_are_coherent_in_full_tables() {
    holds_in_full_tables(laws::decisions_are_coherent, Time::AnyWay, usize::MAX);
}

pub(crate) fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    TestRunner::new(properties::config(file!(), 512)).run(strategy, law).unwrap();
}

#[test]
fn law_1_never_over() {
    holds(laws::never_over, Time::Forward, 60);
}

#[test]
fn law_1_never_stingy_by_rate() {
    check(laws::never_stingy, &scenarios(Tick::Nano, Time::Forward, 60));
}

#[test]
fn law_1_windows_follow_their_definition() {
    holds_for_one(laws::windows_follow_their_definition, any_window(), Time::Forward, 60);
}

#[test]
fn law_1_reservations_keep_the_bound() {
    holds(laws::reservations_keep_the_bound, Time::Forward, 40);
}

#[test]
fn law_1_taking_takes_what_fits() {
    holds(laws::taking_takes_what_fits, Time::Forward, 40);
    holds_in_full_tables(laws::taking_takes_what_fits, Time::Forward, 1);
}

#[test]
fn law_1_charges_afterwards_keep_the_bound() {
    holds_for_one(laws::charges_afterwards_keep_the_bound, any_policy(), Time::Forward, 60);
}

#[test]
fn law_1_charges_follow_the_definition() {
    holds_for_one(laws::charges_follow_the_definition, any_window(), Time::Forward, 60);
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

#[test]
fn law_6_all_or_nothing() {
    run(&mixed(any_several_alike(), Tick::Nano, Time::Forward, 20), |scenario| {
        let mut several = Bare::new(scenario.policy.clone());
        laws::all_or_nothing(&mut several, Bare::new, &scenario)?;
        let mut several = InMemory::new(scenario.policy.clone());
        laws::all_or_nothing(&mut several, InMemory::new, &scenario)
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
    let scenarios = mixed(any_alike(), Tick::Nano, Time::AnyWay, 40);
    run(&scenarios, |scenario| {
        let mut bare = Bare::new(scenario.policy.clone());
        laws::a_handle_enforces_the_policy_that_it_reports(&mut bare, Bare::new, &scenario)
    });
    // Before a step back of the clock, a table may have given the place of a fresh key to another.
    let scenarios = mixed(any_alike(), Tick::Nano, Time::Forward, 40);
    run(&scenarios, |scenario| {
        let mut limiter = InMemory::new(scenario.policy.clone());
        laws::a_handle_enforces_the_policy_that_it_reports(&mut limiter, InMemory::new, &scenario)
    });
}

#[test]
fn law_10_decisions_are_coherent() {
    holds(laws::decisions_are_coherent, Time::AnyWay, 60);
    holds_for_one(laws::decisions_are_coherent, any_single(), Time::AnyWay, 60);
}
