//! Law 8: each script and its twin give the same decision, and leave the same state for as long:
//! gcra and its short ways gcra_check, gcra_double_check and gcra_remainder_check, fixed_window and
//! fixed_window_check, sliding_counter and sliding_counter_check, ledger and ledger_check; and the short
//! ways of several limits, gcra_several, gcra_remainder_several, fixed_window_several and sliding_counter_several.
//!
//! The algorithms' twins stand beside their scripts; what the operations do with them, and how values
//! are written, is done again here. Many calls go to the server at once: a quarter of the cases that
//! PROPTEST_CASES says are about 25,000 calls an algorithm, and `cargo xtask twins` makes four times as
//! many.

mod found;
mod model;
mod rig;
mod several;
mod tapes;
pub(super) mod traffic;
mod value;

use std::time::{Duration, Instant};

use limiter_core::{
    Cost, Kind, Policy, Quota, Timestamp,
    algorithm::{Resolution::Micros, Slots, Start},
};
use limiter_test::{
    policies::{any_several, any_two_alike},
    schedule::{self, Time, quotas},
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};

use super::store::{EPOCH, Store};
use crate::scripts::{PRELUDE, Plan};

/// How many calls there are in a case at most.
const CALLS: usize = 800;

/// Tries random calls on policies, over a clock that also steps back.
fn agree(name: &str, policies: impl Strategy<Value = Policy>) {
    let store = Store::new();
    let policies = policies.prop_filter("no script", |policy| Plan::new(PRELUDE, policy).is_ok());
    let cases =
        (schedule::traffic(policies, Micros, Time::AnyWay, CALLS), vec(any::<u64>(), CALLS));
    let (start, calls) = (Instant::now(), std::cell::Cell::new(0));
    let result = TestRunner::new(config()).run(&cases, |(scenario, choices)| {
        calls.set(calls.get() + traffic::run(&store, &scenario, &choices)?);
        Ok(())
    });
    println!("{name}: {} calls in {:?}", calls.get(), start.elapsed());
    result.unwrap();
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.div_ceil(4), failure_persistence: None, ..default }
}

fn windows() -> impl Strategy<Value = Quota> {
    let window_ms = prop_oneof![Just(1), Just(1_000), 1..=1_000_u64, 1..=366 * 86_400_000_u64];
    let permits = prop_oneof![4 => 1..=15_u64, 1 => 16..=5_000_u64, 1 => 1..=94_906_265_u64];
    (window_ms, permits).prop_map(|(window_ms, permits)| {
        Quota::per(permits, Duration::from_millis(window_ms)).unwrap()
    })
}

fn policies(
    kinds: impl Strategy<Value = Kind>,
    quotas: impl Strategy<Value = Quota>,
) -> impl Strategy<Value = Policy> {
    (kinds, quotas).prop_filter_map("a quota that can't be held", |(kind, quota)| {
        Policy::new("test", kind, quota).ok()
    })
}

/// Returns quotas of which most have an increment that is written in digits.
fn round_quotas() -> impl Strategy<Value = Quota> {
    (prop_oneof![Just(1_000_u64), Just(60_000), Just(3_600_000)], 1..=12_u64, 1..=50_u64).prop_map(
        |(window_ms, permits, burst)| {
            let quota = Quota::per(permits, Duration::from_millis(window_ms)).unwrap();
            quota.with_burst(burst).unwrap()
        },
    )
}

#[test]
fn gcra_and_its_twin_agree() {
    let kinds = prop_oneof![
        3 => Just(Kind::Gcra),
        1 => (0..=10_u64).prop_map(|depth| Kind::LeakyQueue { depth }),
    ];
    let quotas = prop_oneof![quotas(Micros), round_quotas()];
    agree("gcra, gcra_check", policies(kinds, quotas));
}

#[test]
fn the_fixed_window_and_its_twin_agree() {
    let kinds = prop_oneof![
        Just(Kind::FixedWindow(Start::FirstUse)),
        Just(Kind::FixedWindow(Start::Aligned))
    ];
    agree("fixed_window", policies(kinds, windows()));
}

#[test]
fn the_sliding_counter_and_its_twin_agree() {
    agree("sliding_counter", policies(Just(Kind::SlidingCounter), windows()));
}

#[test]
fn sub_windows_and_their_twin_agree() {
    let slots = (prop_oneof![1..=12_u32, Just(60), Just(1_000)], any::<bool>(), any::<bool>());
    let kinds = slots.prop_map(|(number, loose, paced)| {
        let slots = if loose { Slots::loose(number) } else { Slots::strict(number) };
        Kind::SubWindows(if paced { slots.unwrap().paced() } else { slots.unwrap() })
    });
    agree("ledger of slots", policies(kinds, windows()));
}

#[test]
fn the_log_and_its_twin_agree() {
    agree("ledger of moments", policies(Just(Kind::SlidingLog), windows()));
}

#[test]
fn several_limits_and_their_twins_agree() {
    agree("several", any_several());
}

#[test]
fn tiers_and_their_twins_agree() {
    let tiers = any_two_alike().prop_map(|(one, other)| one.with_tier(other).unwrap());
    agree("tiers", tiers);
}

/// So many checks in a row that a ledger outgrows its pocket, then its tape, and loses what it had: what
/// is in between is only now and then another operation.
#[test]
fn rows_of_checks_and_the_ledgers_twin_agree() {
    let kinds = prop_oneof![
        Just(Kind::SlidingLog),
        (3..=40_u32).prop_map(|slots| Kind::SubWindows(Slots::strict(slots).unwrap())),
        (3..=40_u32).prop_map(|slots| Kind::SubWindows(Slots::loose(slots).unwrap())),
    ];
    let quotas = (3..=120_u64, 100..=5_000_u64).prop_map(|(permits, window_ms)| {
        Quota::per(permits, Duration::from_millis(window_ms)).unwrap()
    });
    rows("rows of checks by a ledger", policies(kinds, quotas));
}

/// Tries rows of checks, among which another operation is rare.
fn rows(name: &str, policies: impl Strategy<Value = Policy>) {
    // How far a step goes, in parts of a window for each permit, and its cost.
    let gap = prop_oneof![6 => 0..=200_u64, 4 => 0..=10_u64, 1 => 0..=2_000_u64];
    let cost = prop_oneof![12 => Just(1_u64), 2 => 2..=3_u64, 1 => 1..=120_u64];
    let steps = vec((gap, cost, 0..60_u8, any::<u64>()), CALLS);
    let store = Store::new();
    let calls = std::cell::Cell::new(0);
    let result = TestRunner::new(config()).run(&(policies, steps), |(policy, steps)| {
        let mut pair = traffic::Pair::new(&policy);
        let quota = *policy.limits()[0].quota();
        let part = quota.window().as_micros() / u128::from(quota.permits()) / 100;
        let mut now = Timestamp::ZERO.saturating_add(EPOCH);
        for (gap, cost, other, choice) in steps {
            let gap = part.max(1) * u128::from(gap);
            now = now.saturating_add(Duration::from_micros(u64::try_from(gap).unwrap()));
            let cost = Cost::new(cost).unwrap();
            match other {
                0 => pair.random(now, cost, choice),
                _ => pair.check(now, 0, cost),
            }
        }
        calls.set(calls.get() + pair.compare(&store)?.len());
        Ok(())
    });
    println!("{name}: {} calls", calls.get());
    result.unwrap();
}
