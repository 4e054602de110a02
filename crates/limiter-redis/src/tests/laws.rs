//! The laws as properties of the script, on a real server.

use limiter_core::algorithm::Resolution::Micros;
use limiter_test::{
    laws::{self, Law},
    schedule::{Scenario, Time, scenarios},
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::store::{InRedis, Store};

fn holds(time: Time, most: usize, law: fn(&mut InRedis, &Scenario) -> Law) {
    let store = Store::new();
    let config = ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() };
    TestRunner::new(config)
        .run(&scenarios(Micros, time, most), |scenario| {
            law(&mut store.limiter(scenario.policy.clone()), &scenario)
        })
        .unwrap();
}

#[test]
fn law_1_never_over() {
    holds(Time::Forward, 60, laws::never_over);
}

#[test]
fn law_1_never_stingy() {
    holds(Time::Forward, 60, laws::never_stingy);
}

#[test]
fn law_2_refusal_changes_nothing() {
    holds(Time::Forward, 60, laws::refusal_changes_nothing);
}

#[test]
fn law_3_retry_after_is_exact() {
    holds(Time::AnyWay, 40, laws::retry_after_is_exact);
}

#[test]
fn law_4_recovered_equals_absent() {
    holds(Time::Forward, 20, laws::recovered_equals_absent);
}

#[test]
fn law_5_a_clock_that_steps_back_gives_nothing() {
    holds(Time::AnyWay, 60, laws::never_over);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery() {
    holds(Time::AnyWay, 60, laws::no_wait_outlasts_a_recovery);
}

#[test]
fn law_10_decisions_are_coherent() {
    holds(Time::AnyWay, 60, laws::decisions_are_coherent);
}
