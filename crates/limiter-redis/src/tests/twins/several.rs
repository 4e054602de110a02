//! The short way of a check by several limits: in rows of checks, on states that someone else has left,
//! and that it is gone where it can be.

use std::time::Duration;

use limiter_core::{Cost, Kind, Policy, Quota, algorithm::Start};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{
    config,
    found::{NOW, doubles, packed},
    rows,
    traffic::Pair,
    value::Value,
};
use crate::tests::store::{EPOCH, Store};

/// Returns policies of two to eight limits, each of a kind that has a short way among several.
fn policies() -> impl Strategy<Value = Policy> {
    let kinds = select(vec![
        Kind::Gcra,
        Kind::Gcra,
        Kind::FixedWindow(Start::FirstUse),
        Kind::FixedWindow(Start::Aligned),
        Kind::SlidingCounter,
    ]);
    (1..=12_u64, select(vec![1, 1_000, 60_000]), vec((kinds, 2..=4_u64), 2..=8)).prop_filter_map(
        "limits at odds",
        |(mut permits, mut window_ms, kinds)| {
            let mut limits = Vec::new();
            for (index, (kind, more)) in kinds.into_iter().enumerate() {
                let quota = Quota::per(permits, Duration::from_millis(window_ms)).ok()?;
                limits.push(Policy::new(&format!("limit {index}"), kind, quota).ok()?);
                (permits, window_ms) = (permits * more, window_ms * (more + 1));
            }
            Policy::several("test", limits).ok()
        },
    )
}

#[test]
fn rows_of_checks_by_several_limits_and_their_twins_agree() {
    rows("rows of checks by several limits", policies());
}

/// Returns the state that a limit may have left, and now and then another's.
fn own_state(policy: &Policy, index: usize, at: f64, counts: &[u64], other: u8) -> Vec<u8> {
    let limit = &policy.limits()[index];
    let quota = limit.quota();
    let (window, permits) = (quota.window().as_micros() as f64, quota.permits());
    let [one, two] = [counts[0] % (permits + 2), counts[1] % (permits + 2)];
    match (limit.kind(), other) {
        (Kind::FixedWindow(_), _) => packed([at, one as f64]),
        (Kind::SlidingCounter, 0) => packed([at, one as f64, two as f64, window + 1_000.0]),
        (Kind::SlidingCounter, _) => packed([at, one as f64, two as f64, window]),
        (_, 0) => packed([at, 1_000.0]),
        _ => {
            let plan = crate::scripts::Plan::new(crate::scripts::PRELUDE, policy).unwrap();
            // What is drained at the time zero: but for the time, this is what the quota leaves.
            let (mut state, _) = plan.limits()[index].twin(false).write();
            let has_remainder = state.len() > 16;
            let at = if has_remainder { -at } else { at };
            state[..8].copy_from_slice(&at.to_le_bytes());
            if has_remainder {
                state[16] = (counts[0] % 3) as u8;
            }
            state
        }
    }
}

/// A policy, of each state the time and what else it has, notes, of how many limits, a cost, and what
/// comes after a check of that.
type Case = (Policy, Vec<(f64, [u64; 2], u8)>, Vec<u8>, usize, u64, [u64; 6]);

#[test]
fn several_limits_and_their_twins_agree_on_any_text() {
    let near = (102_080_000_000_000..102_080_100_000_000_i64).prop_map(|at| at as f64);
    let states = vec((prop_oneof![8 => near, 3 => doubles()], any::<[u64; 2]>(), 0..12_u8), 8);
    let notes = packed([-1.0, 102_080_009_000_000.0, 0.0, 0.0, 0.0]);
    let notes = prop_oneof![4 => Just(Vec::new()), 1 => Just(notes), 1 => Just(vec![b'x'])];
    let cases = (policies(), states, notes, 0..9_usize, 1..=3_u64, any::<[u64; 6]>());
    let store = Store::new();
    let law = |(policy, states, notes, number, cost, choices): Case| {
        let limits = policy.limits().len();
        // As many as there are, or one more or less.
        let number = if number < 8 { limits } else { limits - 1 };
        let states = states.into_iter().take(number).enumerate();
        let state = |(n, (at, counts, other)): (usize, (f64, [u64; 2], u8))| {
            own_state(&policy, n, at, &counts, other)
        };
        let text = [notes, states.flat_map(state).collect()].concat();
        let mut pair = Pair::new(&policy);
        pair.put(&store, Value::Text(Some(text)));
        let (now, cost) = (NOW.saturating_add(EPOCH), Cost::new(cost).unwrap());
        pair.check(now, 0, cost);
        for choice in choices {
            pair.random(now, cost, choice);
        }
        pair.compare(&store)?;
        Ok(())
    };
    TestRunner::new(config()).run(&cases, law).unwrap();
}

/// The long way reads the state once more.
#[test]
fn a_check_of_what_the_same_quotas_have_left_reads_once() {
    let store = Store::new();
    let law = |(policy, gaps): (Policy, Vec<u64>)| {
        let mut pair = Pair::new(&policy);
        let mut now = NOW.saturating_add(EPOCH);
        for gap in &gaps {
            now = now.saturating_add(Duration::from_millis(*gap));
            pair.check(now, 0, Cost::ONE);
        }
        for (index, done) in pair.compare(&store)?.iter().enumerate() {
            prop_assert_eq!(done.reads, 1, "step {} of {:?}", index, gaps);
        }
        Ok(())
    };
    TestRunner::new(config()).run(&(policies(), vec(0..2_000_u64, 20)), law).unwrap();
}
