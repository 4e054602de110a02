//! Values that no script of the policy has left: whatever was found, no script fails, twins agree, and
//! the key is its own again after one recovery.

use limiter_core::{Cost, Kind, Policy, Quota, Timestamp, algorithm::Start};
use limiter_test::schedule::quotas;
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{Micros, config, policies, round_quotas, traffic::Pair, value::Value};
use crate::{
    scripts::{PRELUDE, Plan},
    tests::store::{EPOCH, Store},
};

/// When the values are found: `102080005000000`, as scripts tell it.
pub(super) const NOW: Timestamp = Timestamp::from_nanos(5_000_000_000);

/// Returns digits of which some are times near the present.
pub(super) fn numbers() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "10208000[0-9]{7}",
        2 => "1020[0-9]{11}",
        2 => "[0-9]{1,7}",
        1 => "[0-9]{14,18}",
        1 => "[0-9]{300,400}",
        1 => select(vec!["0", "00", "9007199254740993", "18446744073709551615"]).prop_map(Into::into),
    ]
    .boxed()
}

/// Returns texts of one state: those of every algorithm, and what is none.
fn states() -> BoxedStrategy<String> {
    let n = numbers;
    prop_oneof![
        2 => (n(), "[0-9]{3}").prop_map(|(at, count)| format!("{at}{count}")),
        2 => (n(), "[0-9]{3}[0-9]").prop_map(|(at, increment)| format!("{at}{increment}")),
        1 => (n(), n()).prop_map(|(at, count)| format!("{at}:{count}")),
        2 => (n(), n(), n(), "[0-9]", n())
            .prop_map(|(at, rem, m, e, scale)| format!("{at}:{rem}:{m}e{e}:{scale}")),
        2 => (n(), n(), n(), prop_oneof![Just(0), 1..31_622_400_u64])
            .prop_map(|(ends, one, two, ms)| format!("{ends}:{one}:{two}:{ms}000")),
        1 => vec((n(), "[0-9]{4}"), 0..5).prop_map(|entries| {
            entries.iter().map(|(at, count)| format!("{at}{count}")).collect::<Vec<_>>().join(",")
        }),
        1 => "[0-9:|. xinfae,-]{0,6}",
        1 => any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
    .boxed()
}

/// Returns texts with notes behind them, of which some are none.
fn texts() -> impl Strategy<Value = String> {
    let notes = vec(prop_oneof![9 => numbers(), 1 => "[0-9x|-]{0,3}"], 4);
    let notes = notes.prop_map(|notes| format!("|{}", notes.join("|")));
    let state = prop_oneof![
        3 => states(),
        1 => vec(states(), 0..5).prop_map(|states| states.join(" ")),
    ];
    (state, prop_oneof![3 => Just(String::new()), 1 => notes])
        .prop_map(|(state, notes)| state + &notes)
        // Nothing at all is no value.
        .prop_filter("no value", |text| !text.is_empty())
}

/// Tries that the twin agrees on texts.
fn agree(policies: impl Strategy<Value = Policy>, texts: impl Strategy<Value = String>) {
    let store = Store::new();
    let policies = policies.prop_filter("no script", |policy| Plan::new(PRELUDE, policy).is_ok());
    let cases = (policies, texts, 1..=3_u64, any::<[u64; 6]>());
    let law = |(policy, text, cost, choices): (Policy, String, u64, [u64; 6])| {
        let mut pair = Pair::new(&policy);
        pair.put(&store, Value::Text(Some(text)));
        let cost = Cost::new(cost).unwrap();
        pair.peek(NOW.saturating_add(EPOCH), 0);
        for choice in choices {
            pair.random(NOW.saturating_add(EPOCH), cost, choice);
        }
        pair.compare(&store)?;
        Ok(())
    };
    TestRunner::new(config()).run(&cases, law).unwrap();
}

#[test]
fn gcra_and_its_twin_agree_on_any_text() {
    let quotas = prop_oneof![quotas(Micros), round_quotas()];
    agree(policies(Just(Kind::Gcra), quotas), texts());
}

#[test]
fn the_short_way_and_the_twin_agree_on_any_text() {
    // What a number can look like to Lua, before the digits of the increment.
    let number = prop_oneof![
        4 => numbers(),
        1 => "-?(nan|inf|0x[0-9]{4}|[0-9]e9|[0-9]{9})",
        1 => " [0-9]{2}|[0-9]{2} |[0-9]{2}[.][0-9]",
    ];
    let policy = Policy::gcra("test", Quota::per_minute(100).unwrap()).unwrap();
    agree(Just(policy), number.prop_map(|number| format!("{number}6003")));
}

#[test]
fn the_fixed_window_and_its_twin_agree_on_any_text() {
    let kinds = select(vec![Start::FirstUse, Start::Aligned]).prop_map(Kind::FixedWindow);
    agree(policies(kinds, super::windows()), texts());
}

#[test]
fn the_sliding_counter_and_its_twin_agree_on_any_text() {
    agree(policies(Just(Kind::SlidingCounter), super::windows()), texts());
}
