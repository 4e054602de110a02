//! The laws as properties, for every algorithm: of the transitions alone, and of the limiter in memory.

use limiter_core::Policy;
use limiter_test::{
    laws::{self, Law},
    policies::{
        any_alike, any_policy, any_several_alike, any_single, any_singles_alike, any_window,
    },
    properties,
    schedule::{Scenario, Tick, Time, mixed, scenarios, traffic},
    subject::{Bare, Crowded, InMemory, Operations},
};
use proptest::{prelude::*, test_runner::TestRunner};

/// A law of one limiter.
trait OneLimiter {
    fn check(subject: &mut impl Operations, scenario: &Scenario) -> Law;
}

/// Names a law that a test passes on to limiters of several types.
macro_rules! law {
    ($law:ident) => {{
        struct Checked;
        impl OneLimiter for Checked {
            fn check(subject: &mut impl Operations, scenario: &Scenario) -> Law {
                laws::$law(subject, scenario)
            }
        }
        Checked
    }};
}

/// Tries a law with policies that take turns on one key, up to three of them.
fn holds<L: OneLimiter>(_: L, time: Time, most: usize) {
    check::<L>(&mixed(any_alike(), Tick::Nano, time, most));
}

/// Tries a law with one policy at a time.
fn holds_for_one<L: OneLimiter>(
    _: L,
    policies: impl Strategy<Value = Policy>,
    time: Time,
    most: usize,
) {
    check::<L>(&traffic(policies, Tick::Nano, time, most));
}

fn check<L: OneLimiter>(scenarios: &impl Strategy<Value = Scenario>) {
    run(scenarios, |scenario| {
        L::check(&mut Bare::new(scenario.policy.clone()), &scenario)?;
        L::check(&mut InMemory::new(scenario.policy.clone()), &scenario)
    });
}

/// Tries a law in tables that are too small: before each of the first `rounds` requests, other keys
/// are charged by the same policies, so that the key may find no slot.
/// Only with single limits, because a key needs a slot for each of several, and not all are free at once.
fn holds_in_full_tables<L: OneLimiter>(_: L, time: Time, rounds: usize) {
    let rooms = prop_oneof![4 => 1..=3_usize, 1 => 4..=64_usize];
    let scenarios = mixed(any_singles_alike(), Tick::Nano, time, 30);
    run(&(rooms, scenarios), |(room, scenario)| {
        let limiter = InMemory::with_room_for(room, scenario.policy.clone());
        let policies = scenario.policies().cloned().collect();
        let mut crowded = Crowded::new(limiter, policies, 20 + 3 * room, rounds);
        L::check(&mut crowded, &scenario)
    });
}

#[test]
fn law_1_never_over_in_full_tables() {
    holds_in_full_tables(law!(never_over), Time::Forward, usize::MAX);
}

#[test]
fn law_1_reservations_keep_the_bound_in_full_tables() {
    holds_in_full_tables(law!(reservations_keep_the_bound), Time::Forward, usize::MAX);
}

#[test]
fn law_3_retry_after_is_exact_in_full_tables() {
    holds_in_full_tables(law!(retry_after_is_exact), Time::AnyWay, 1);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery_in_full_tables() {
    holds_in_full_tables(law!(no_wait_outlasts_a_recovery), Time::AnyWay, usize::MAX);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken_in_full_tables() {
    holds_in_full_tables(law!(a_refund_gives_back_no_more_than_was_taken), Time::AnyWay, 2);
}

#[test]
fn law_10_decisions_are_coherent_in_full_tables() {
    holds_in_full_tables(law!(decisions_are_coherent), Time::AnyWay, usize::MAX);
}

pub(crate) fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    TestRunner::new(properties::config(file!(), 512)).run(strategy, law).unwrap();
}

#[test]
fn law_1_never_over() {
    holds(law!(never_over), Time::Forward, 60);
}

#[test]
fn law_1_never_stingy_by_rate() {
    check_scenarios(law!(never_stingy));
}

fn check_scenarios<L: OneLimiter>(_: L) {
    check::<L>(&scenarios(Tick::Nano, Time::Forward, 60));
}

#[test]
fn law_1_windows_follow_their_definition() {
    holds_for_one(law!(windows_follow_their_definition), any_window(), Time::Forward, 60);
}

#[test]
fn law_1_reservations_keep_the_bound() {
    holds(law!(reservations_keep_the_bound), Time::Forward, 40);
}

#[test]
fn law_1_taking_takes_what_fits() {
    holds(law!(taking_takes_what_fits), Time::Forward, 40);
    holds_in_full_tables(law!(taking_takes_what_fits), Time::Forward, 1);
}

#[test]
fn law_1_charges_afterwards_keep_the_bound() {
    holds_for_one(law!(charges_afterwards_keep_the_bound), any_policy(), Time::Forward, 60);
}

#[test]
fn law_1_charges_follow_the_definition() {
    holds_for_one(law!(charges_follow_the_definition), any_window(), Time::Forward, 60);
}

#[test]
fn law_3_waits_after_a_charge_are_exact() {
    holds(law!(waits_after_a_charge_are_exact), Time::AnyWay, 40);
}

#[test]
fn law_2_refusal_changes_nothing() {
    holds(law!(refusal_changes_nothing), Time::Forward, 60);
}

#[test]
fn law_3_retry_after_is_exact() {
    holds(law!(retry_after_is_exact), Time::AnyWay, 40);
}

#[test]
fn law_4_recovered_equals_absent() {
    holds(law!(recovered_equals_absent), Time::Forward, 20);
}

#[test]
fn law_5_a_clock_that_steps_back_gives_nothing() {
    holds(law!(never_over), Time::AnyWay, 60);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery() {
    holds(law!(no_wait_outlasts_a_recovery), Time::AnyWay, 60);
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
    holds(law!(a_refund_gives_back_what_was_taken), Time::Forward, 40);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken() {
    holds(law!(a_refund_gives_back_no_more_than_was_taken), Time::AnyWay, 60);
}

#[test]
fn law_7_refunds_never_lift_above_the_bound() {
    holds(law!(refunds_never_lift_above_the_bound), Time::Forward, 60);
}

#[test]
fn law_9_a_changed_quota_keeps_what_is_used() {
    holds(law!(a_changed_quota_keeps_what_is_used), Time::Forward, 40);
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
    holds(law!(decisions_are_coherent), Time::AnyWay, 60);
    holds_for_one(law!(decisions_are_coherent), any_single(), Time::AnyWay, 60);
}
