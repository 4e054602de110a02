//! The short way of a check by several limits: in rows of checks, on states that someone else has left,
//! and that it is gone where it can be.

use std::time::Duration;

use limiter_core::{Cost, Kind, Policy, Quota, algorithm::Start};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{
    config,
    found::{NOW, numbers},
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

/// Returns the text of a state that a limit may have left, and now and then another's.
fn own_text(policy: &Policy, index: usize, at: String, counts: &[u64], other: u8) -> String {
    let limit = &policy.limits()[index];
    let quota = limit.quota();
    let (window, permits) = (quota.window().as_micros(), quota.permits());
    let [one, two] = [counts[0] % (permits + 2), counts[1] % (permits + 2)];
    match (limit.kind(), other) {
        (Kind::FixedWindow(_), 0) => format!("{at}:{one}"),
        (Kind::FixedWindow(_), _) => format!("{at}{one:03}"),
        (Kind::SlidingCounter, 0) => format!("{at}:{one}:{two}:{}", window + 1_000),
        (Kind::SlidingCounter, _) => format!("{at}:{one}:{two}:{window}"),
        (_, 0) => format!("{at}:{one}:1e3:1"),
        _ => {
            let plan = crate::scripts::Plan::new(crate::scripts::PRELUDE, policy).unwrap();
            let twin = plan.limits()[index].twin();
            let (text, _) = twin.write();
            // What is drained at the time zero, before the quota: `0:0` or `0`.
            match text.strip_prefix("0:0") {
                Some(quota) => format!("{at}:{one}{quota}"),
                None => format!("{at}{}", &text[1..]),
            }
        }
    }
}

#[test]
fn several_limits_and_their_twins_agree_on_any_text() {
    let at = prop_oneof![8 => "1020800[0-9]{8}", 2 => numbers(), 1 => "-?(nan|inf|0x[0-9]{4})"];
    let texts = vec((at, any::<[u64; 2]>(), 0..12_u8), 8);
    let notes = prop_oneof![4 => Just(String::new()), 1 => "( 1|[|]102080009000000[|]0[|]0[|]0)"];
    let cases = (policies(), texts, notes, 0..9_usize, 1..=3_u64, any::<[u64; 6]>());
    let store = Store::new();
    let law = |(policy, texts, notes, number, cost, choices): (
        Policy,
        Vec<(String, [u64; 2], u8)>,
        String,
        usize,
        u64,
        [u64; 6],
    )| {
        let limits = policy.limits().len();
        // As many as there are, or one more or less.
        let number = if number < 8 { limits } else { limits - 1 };
        let texts = texts.into_iter().take(number).enumerate();
        let texts = texts.map(|(n, (at, counts, other))| own_text(&policy, n, at, &counts, other));
        let text = texts.collect::<Vec<_>>().join(" ") + &notes;
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
