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

/// Returns numbers of which some are times near the present, and some are none that is written.
pub(super) fn doubles() -> BoxedStrategy<f64> {
    let near = 102_080_000_000_000..102_080_010_000_000_i64;
    let later = 102_000_000_000_000..102_999_999_999_999_i64;
    let odd = vec![0.0, -1.0, 0.5, 9_007_199_254_740_992.0, 1e300, f64::NAN, f64::INFINITY];
    prop_oneof![
        4 => near.prop_map(|number| number as f64),
        2 => later.prop_map(|number| number as f64),
        1 => (-103_000_000_000_000..-102_000_000_000_000_i64).prop_map(|number| number as f64),
        3 => (0..10_000_000_i64).prop_map(|number| number as f64),
        1 => (1..31_622_400_i64).prop_map(|ms| ms as f64 * 1e3),
        // Zero has one form in what is written.
        1 => any::<f64>().prop_map(|number| if number == 0.0 { 0.0 } else { number }),
        1 => select(odd),
    ]
    .boxed()
}

pub(super) fn packed(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
    numbers.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// Returns texts of one state: those of every algorithm, and what is none.
fn states() -> BoxedStrategy<Vec<u8>> {
    let six = || (0..1_u64 << 24).prop_map(|number| number.to_le_bytes()[..6].to_vec());
    prop_oneof![
        4 => vec(doubles(), 2).prop_map(packed),
        2 => vec(doubles(), 4).prop_map(packed),
        2 => (doubles(), doubles(), six(), six()).prop_map(|(at, increment, rem, scale)| {
            [packed([-at, increment]), rem, scale].concat()
        }),
        2 => "10208000[0-9]{7}[0-9]{3}".prop_map(String::into_bytes),
        2 => "170208000[0-9]{7}[0-4][0-9]{2}".prop_map(String::into_bytes),
        1 => "[0-9 x.e-]{18,19}".prop_map(String::into_bytes),
        1 => vec((numbers(), "[0-9]{4}"), 0..5).prop_map(|entries| {
            let entries = entries.iter().map(|(at, count)| format!("{at}{count}"));
            (entries.collect::<Vec<_>>().join(",") + " ").into_bytes()
        }),
        1 => vec(any::<u8>(), 0..40),
    ]
    .boxed()
}

/// Returns texts with notes before them, of which some are none.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let notes = vec(doubles(), 4).prop_map(|notes| packed([-1.0].into_iter().chain(notes)));
    let state = prop_oneof![
        3 => states(),
        1 => vec(states(), 0..5).prop_map(|states| states.concat()),
    ];
    (prop_oneof![3 => Just(Vec::new()), 1 => notes], state)
        .prop_map(|(notes, state)| [notes, state].concat())
        // Nothing at all is no value.
        .prop_filter("no value", |text| !text.is_empty())
}

/// Tries that the twin agrees on texts.
fn agree(policies: impl Strategy<Value = Policy>, texts: impl Strategy<Value = Vec<u8>>) {
    let store = Store::new();
    let policies = policies.prop_filter("no script", |policy| Plan::new(PRELUDE, policy).is_ok());
    let cases = (policies, texts, 1..=3_u64, any::<[u64; 6]>());
    let law = |(policy, text, cost, choices): (Policy, Vec<u8>, u64, [u64; 6])| {
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
fn the_short_ways_and_the_twin_agree_on_any_text() {
    // Increments that are written in digits, and not.
    for (permits, increment, digits) in [(100, 600_000.0, "204"), (256, 234_375.0, "010")] {
        let policy = Policy::gcra("test", Quota::per_minute(permits).unwrap()).unwrap();
        // What a number can look like to Lua, before that of the increment.
        let before = prop_oneof![
            4 => "170208000[0-9]{7}",
            2 => "170208[0-9]{10}",
            1 => "[0-9]{16}",
            1 => numbers(),
            1 => "[0-9 x.e-]{16}|0x[0-9]{14}|[0-9]{14}e[0-9]|-[0-9]{15}|[0-9]{11}[.][0-9]{4}",
            1 => "-?(nan|inf) {12,13}| {8}[0-9]{8}|[0-9]{8} {8}",
        ];
        let in_digits = before.prop_map(move |before| format!("{before}{digits}").into_bytes());
        let in_doubles = doubles().prop_map(move |number| packed([number, increment]));
        agree(Just(policy), prop_oneof![in_digits, in_doubles]);
    }
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
