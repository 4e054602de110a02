//! Values that no script of the policy has left: no script fails, and twins agree.

use limiter_core::{Algorithm, Cost, Policy};
use limiter_test::properties;
use limiter_twins::Reply;
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{START, gcra, policies, rig::Rig, several, sub_windows, traffic::Pair, windows};
use crate::{
    scripts::{Ask, Charge, Demand, Plan, PolicyRequest, Route, Scripts},
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

/// Returns a text with as many numbers as states have.
fn texts() -> impl Strategy<Value = String> {
    let near = |count| {
        let words = ("170208000[0-9]{7}", vec(numbers(), count));
        words.prop_map(|(at, rest)| [vec![at], rest].concat().join(" "))
    };
    let fine = ("170208000[0-9]{7}\\.[0-9]{4}", "[0-9]{1,4}\\.[0-9]{4}", "[0-9]{4,9}\\.[0-9]{4}");
    prop_oneof![
        4 => near(2),
        2 => near(3),
        2 => near(4),
        1 => near(5),
        1 => near(6),
        2 => fine.prop_map(|(tat, increment, reach)| format!("{tat} {increment} {reach}")),
        2 => vec(numbers(), 1..7).prop_map(|words| words.join(" ")),
        1 => select(vec!["", "-", " -"]).prop_map(Into::into),
    ]
}

/// Returns up to five windows with lengths of up to a second, as the scripts write them.
fn sound_windows(fades: bool) -> impl Strategy<Value = String> {
    let since = prop_oneof![3 => -1_000_i64..=0, 1 => -3_000_000..=3_000_000_i64];
    let length = prop_oneof![1_000..=1_000_000_i64, Just(1_000_000)];
    let reach = 0..=2_000_000_i64;
    let count = || prop_oneof![Just(0_i64), 0..=20_i64, 0..=100_000_000_i64];
    let end = prop_oneof![2 => Just(None), 1 => (0..=2_000_000_i64).prop_map(Some)];
    let windows = vec((since, length, reach, count(), count(), end), 1..=5);
    windows.prop_map(move |windows| {
        let windows = (0..).zip(windows);
        let texts = windows.map(|(n, (since, length, reach, count, previous, end))| {
            // No key has two windows of one length.
            let length = length + n;
            // Of some that have begun, in thousandths of the length.
            let has_begun = (-1_000..=0).contains(&since);
            let since = START + if has_begun { since * length / 1_000 } else { since };
            let mut numbers = vec![since, length, length + reach, count];
            numbers.extend(fades.then_some(previous));
            if let Some(end) = end {
                numbers.extend([length - length / 3, since + end]);
            }
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        });
        texts.collect::<Vec<_>>().join(", ")
    })
}

/// Returns a list of up to 80 entries and up to four quotas that have charged it, as the scripts write it.
fn sound_lists() -> impl Strategy<Value = Vec<String>> {
    let gap = prop_oneof![Just(1_i64), 1..=1_000_i64, 1..=200_000_i64];
    let entries = vec((gap, prop_oneof![3 => 1..=3_i64, 1 => 1..=1_000_i64]), 1..80);
    let span = || prop_oneof![Just(1_000_i64), Just(1_000_000), 1..=2_000_000_i64];
    let writer = (prop_oneof![2 => Just(1_i64), 1 => 1..=1_000_i64], span(), 0..=1_000_000_i64);
    let last = prop_oneof![3 => -1_000_000..=0_i64, 1 => -1_000_000..=1_000_000_i64];
    let all = (entries, vec((writer, 0..=1_000_000_i64), 1..=4), last, 1..=100_i64);
    all.prop_map(|(entries, writers, last, largest)| {
        let length: i64 = entries.iter().map(|(gap, _)| gap).sum();
        let mut at = START + last - length;
        let entries = entries.iter().map(|(gap, count)| {
            at += gap;
            (at, count)
        });
        let mut entries: Vec<_> = entries.collect();
        let total: i64 = entries.iter().map(|(_, count)| **count).sum();
        let (at, count) = entries.pop().unwrap();
        let mut head = format!("{at} {count} {total} {largest}");
        for ((slot, span, horizon), age) in &writers {
            let span = span.max(slot);
            head += &if writers.len() == 1 {
                format!(" {slot} {span} {horizon}")
            } else {
                format!(", {slot} {span} {horizon} {}", at - age)
            };
        }
        let older = entries.iter().map(|(at, count)| format!("{at} {count}"));
        [head].into_iter().chain(older).collect()
    })
}

/// What is stored at a key before the calls.
#[derive(Clone, Debug)]
enum Planted {
    Text(String),
    List(Vec<String>),
    /// A list that the quota itself has left: how many entries have ended, and the ages of others in thousandths of the
    /// span.
    Own(i64, Vec<i64>),
}

/// Returns the elements of a list of a quota's own, ` slot span horizon`.
fn own_list(now: i64, quota: &str, ended: i64, ages: &[i64]) -> Vec<String> {
    let span = quota.split(' ').nth(2).map_or(0, |span| span.parse::<i64>().unwrap_or(0));
    let ended = (0..ended).map(|age| now - 2 * span - age);
    let mut all: Vec<_> = ended.chain(ages.iter().map(|age| now - span * age / 1_000)).collect();
    all.sort_unstable();
    all.dedup();
    let mut entries = all.iter().map(|at| format!("{at} 1"));
    let newest = entries.next_back().unwrap();
    let head = format!("{newest} {} 1{quota}", all.len());
    [head].into_iter().chain(entries).collect()
}

/// Returns values of any kind.
fn values() -> impl Strategy<Value = Planted> {
    prop_oneof![
        6 => vec(texts(), 1..=3).prop_map(|texts| Planted::Text(texts.join(", "))),
        4 => any::<bool>().prop_flat_map(sound_windows).prop_map(Planted::Text),
        1 => "170208[0-9]{10}".prop_map(Planted::Text),
        5 => sound_lists().prop_map(Planted::List),
        2 => (prop_oneof![0..=5_i64, 61..=68_i64], vec(0..=999_i64, 1..=5))
            .prop_map(|(ended, ages)| Planted::Own(ended, ages)),
        // One that can't be read. A head that can be has a random total, which the script believes, because a denied
        // RPUSH leaves one, and its twin, which adds up the entries, does not.
        1 => (texts(), sound_lists())
            .prop_filter("a head that can be read", |(head, _)| head.split(' ').count() < 7)
            .prop_map(|(head, list)| Planted::List([vec![head], list[1..].to_vec()].concat())),
    ]
}

/// A value, where it is planted, a cost, and what is called.
type Turn = (Planted, u8, u64, [u64; 4]);

/// Checks that the twins agree where values are at the keys of limits and of leases.
fn agree(policies: impl Strategy<Value = Policy>) {
    let store = Store::new();
    let turns = vec((values(), any::<u8>(), 1..=3_u64, any::<[u64; 4]>()), 1..=4);
    let law = |(policy, turns): (Policy, Vec<Turn>)| {
        let keys = policy.limits().len();
        let mut pair = Pair::new(&[policy]);
        let mut now = START;
        for (planted, place, cost, choices) in turns {
            let place = usize::from(place);
            // Seldom at the keys of leases.
            let place = if place < 200 { place % keys } else { place % (2 * keys) };
            match planted {
                Planted::Text(text) => pair.set(now, place, &text),
                Planted::List(list) => pair.push(now, place, &list),
                Planted::Own(ended, ages) => {
                    let list = own_list(now, pair.quota(place % keys), ended, &ages);
                    pair.push(now, place, &list);
                }
            }
            let cost = Cost::new(cost).unwrap();
            for choice in choices {
                pair.random(now, cost, choice);
            }
            now += i64::try_from(choices[0] % 500_000).unwrap();
        }
        pair.compare(&store)?;
        Ok(())
    };
    let config = properties::config(file!(), 640);
    TestRunner::new(config).run(&(policies, turns), law).unwrap();
}

#[test]
fn gcra_and_its_twin_agree_on_any_value() {
    agree(gcra());
}

#[test]
fn the_windows_and_their_twins_agree_on_any_value() {
    let is_log = |it: &Algorithm| matches!(it, Algorithm::SubWindows(_) | Algorithm::SlidingLog);
    let algorithms = Algorithm::one_of_each().filter(|it| !it.is_continuous() && !is_log(it));
    agree(policies(select(algorithms.collect::<Vec<_>>()), windows()));
}

#[test]
fn the_logs_and_their_twins_agree_on_any_value() {
    let logs = policies(Just(Algorithm::SlidingLog), windows());
    agree(prop_oneof![logs, policies(sub_windows(), windows())]);
}

#[test]
fn several_limits_and_their_twins_agree_on_any_value() {
    let algorithms = vec![Algorithm::FixedWindow, Algorithm::SlidingCounter, Algorithm::SlidingLog];
    let others = move || policies(select(algorithms.clone()), windows());
    agree(several(move || prop_oneof![gcra(), others()], 2..=4));
}

/// A list with damaged entries may be counted in any way, but no call fails, and a moment after all that it can promise
/// a check is admitted.
#[test]
fn no_script_fails_on_any_list() {
    let element =
        || prop_oneof![1 => numbers(), 3 => "170208000[0-9]{7} [0-9]{1,3}", 2 => "[0-9]{1,3}"];
    let words =
        ("170208000[0-9]{7}", vec("[0-9]{1,3}", 3), "1|1000000", "[0-9]{7,9}", "[0-9]{1,9}");
    let head = prop_oneof![
        3 => words.prop_map(|(at, counts, slot, span, horizon)| {
            [at, counts.join(" "), slot, span, horizon].join(" ")
        }),
        1 => numbers(),
    ];
    let lists = (head, vec(element(), 0..12)).prop_map(|(head, rest)| [vec![head], rest].concat());
    let policies = policies(Just(Algorithm::SlidingLog), windows());
    let store = Store::new();
    let cases = (policies, lists, any::<[u8; 4]>());
    let config = properties::config(file!(), 640);
    let law = |(policy, list, choices): (Policy, Vec<String>, [u8; 4])| {
        let plan = Plan::new(Scripts::shared(), &policy, false);
        let mut rig = Rig::new(1);
        let elements: Vec<_> = list.iter().map(String::as_str).collect();
        rig.command(START, "RPUSH", 0, &elements);
        let check = |route| {
            let charge = Charge { cost: Cost::ONE, wanted: 0, route };
            plan.checks(route, [(&plan, charge)].into_iter())
        };
        let request =
            |request| plan.policy_call([([Demand::charge(&plan, Cost::ONE)], request)].into_iter());
        let asks: Vec<_> = Ask::one_of_each().map(PolicyRequest::Reserve).collect();
        for choice in choices.map(usize::from) {
            let call = match choice % (asks.len() + 3) {
                0 => check(Route::Own),
                1 => check(Route::Policy),
                2 => request(PolicyRequest::Peek),
                index => request(asks[index - 3]),
            };
            rig.call(START, &call, &[0]);
        }
        // Repairs the list if it is damaged.
        rig.call(START, &check(Route::Policy), &[0]);
        // Beyond the longest span and horizon that a header can have.
        rig.call(START + 250_000_000_000_000, &check(Route::Policy), &[0]);
        let all = rig.run(&store);
        for done in &all {
            prop_assert!(!matches!(done.reply, Reply::Error(_)), "{:?} on {:?}", done, list);
            prop_assert!(done.writes <= 5, "{:?} on {:?}", done, list);
        }
        let last = all.last().map(|done| &done.reply);
        let is_admitted =
            |reply: &Reply| matches!(reply, Reply::Array(all) if all[0] == Reply::Integer(1));
        prop_assert!(last.is_some_and(is_admitted), "{:?} on {:?}", last, list);
        Ok(())
    };
    TestRunner::new(config).run(&cases, law).unwrap();
}
