//! Values that no script of the policy has left: no script fails, and twins agree.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Policy};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{START, config, gcra, policies, rig::Rig, traffic::Pair, windows};
use crate::{
    scripts::{Plan, Scripts},
    tests::store::Store,
};

/// Returns digits of which some are times near the start.
fn numbers() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "170208000[0-9]{7}",
        2 => "17020[0-9]{11}",
        3 => "[0-9]{1,7}",
        2 => (1..=366 * 86_400_u64).prop_map(|seconds| format!("{seconds}000000")),
        1 => "[0-9]{14,18}",
        1 => "[0-9]{60,70}",
        1 => "170208000[0-9]{7}\\.[0-9]{4}",
        1 => "[0-9]{1,9}\\.[0-9]{4}",
        1 => select(vec!["", "0", "00", "-", "-1", "x", "1e15", "nan", "0x1", "9007199254740993"])
            .prop_map(Into::into),
    ]
    .boxed()
}

fn states() -> impl Strategy<Value = String> {
    let near = |count| {
        let words = ("170208000[0-9]{7}", vec(numbers(), count));
        words.prop_map(|(at, rest)| [vec![at], rest].concat().join(" "))
    };
    let fine = ("170208000[0-9]{7}\\.[0-9]{4}", "[0-9]{1,4}\\.[0-9]{4}", "[0-9]{4,9}\\.[0-9]{4}");
    prop_oneof![
        4 => near(2),
        2 => near(3),
        2 => near(4),
        2 => fine.prop_map(|(tat, increment, reach)| format!("{tat} {increment} {reach}")),
        2 => vec(numbers(), 1..7).prop_map(|words| words.join(" ")),
        1 => select(vec!["-", " -"]).prop_map(Into::into),
    ]
}

/// Checks that the twin agrees on texts.
fn agree(policies: impl Strategy<Value = Policy>, most: usize) {
    let store = Store::new();
    let text = vec(states(), 1..=most).prop_map(|states| states.join(", "));
    // An empty text is no state of a limit, but the rig can't tell it from none.
    let text = text.prop_filter("no text", |text| !text.is_empty());
    let cases = (policies, text, 1..=3_u64, any::<[u64; 6]>());
    let law = |(policy, text, cost, choices): (Policy, String, u64, [u64; 6])| {
        let mut pair = Pair::new(&[policy]);
        pair.put(&store, &text);
        let cost = Cost::new(cost).unwrap();
        pair.peek(START, 0);
        for choice in choices {
            pair.random(START, cost, choice);
        }
        pair.compare(&store)?;
        Ok(())
    };
    let config = ProptestConfig { cases: config().cases * 20, ..config() };
    TestRunner::new(config).run(&cases, law).unwrap();
}

#[test]
fn gcra_and_its_twin_agree_on_any_text() {
    agree(gcra(), 1);
}

#[test]
fn the_windows_and_their_twins_agree_on_any_text() {
    let algorithms =
        select(vec![Algorithm::FixedWindow, Algorithm::AlignedWindow, Algorithm::SlidingCounter]);
    agree(policies(algorithms, windows()), 1);
}

#[test]
fn several_limits_and_their_twins_agree_on_any_text() {
    let limits = vec(
        prop_oneof![
            gcra(),
            policies(
                select(vec![
                    Algorithm::FixedWindow,
                    Algorithm::SlidingCounter,
                    Algorithm::SlidingLog
                ]),
                windows()
            )
        ],
        2..=4,
    );
    let several = limits.prop_filter_map("limits at odds", |limits| {
        let limits = limits.iter().enumerate().map(|(index, policy)| {
            let limit = &policy.limits()[0];
            Policy::new(&format!("limit {index}"), limit.algorithm(), *limit.quota()).unwrap()
        });
        Policy::all_of("test", limits).ok()
    });
    agree(several, 5);
}

/// A list that no script has left may be counted in any way, but no call fails, and a moment after all that
/// it can promise a check is admitted.
#[test]
fn no_script_fails_on_any_list() {
    let element = || prop_oneof![1 => numbers(), 3 => "170208000[0-9]{7}", 2 => "[0-9]{1,3}"];
    let head = prop_oneof![
        3 => ("1|1000000", "[0-9]{7,9}", "[0-9]{1,9}", "[0-9]{1,3}|[0-9]{30}", "170208000[0-9]{7}")
            .prop_map(|(a, b, c, d, e)| [a, b, c, d, e].join(" ")),
        1 => numbers(),
    ];
    let lists = (head, vec(element(), 0..12)).prop_map(|(head, rest)| [vec![head], rest].concat());
    let policies = policies(Just(Algorithm::SlidingLog), windows());
    let store = Store::new();
    let cases = (policies, lists, any::<[u8; 4]>());
    let config = ProptestConfig { cases: config().cases * 10, ..config() };
    let result = TestRunner::new(config).run(&cases, |(policy, list, choices)| {
        let plan = Plan::new(Scripts::shared(), &policy, None);
        let mut rig = Rig::new();
        rig.push(&store, &list);
        for choice in choices {
            let call = match choice % 3 {
                0 => plan.check(Cost::ONE),
                1 => plan.take(Cost::ONE, Duration::MAX),
                _ => plan.peek(),
            };
            rig.add(START, &call);
        }
        // Beyond the longest span and horizon that a header can have.
        rig.add(START + 250_000_000_000_000, &plan.check(Cost::ONE));
        for done in rig.run(&store) {
            prop_assert!(done.reply.is_ok(), "{:?} on {:?}", done, list);
            prop_assert!(!done.stays, "{:?} on {:?}", done, list);
            prop_assert!(done.writes <= 5, "{:?} on {:?}", done, list);
        }
        Ok(())
    });
    result.unwrap();
}
