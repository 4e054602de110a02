//! Quotas of several lengths that take turns on one key: the rules, as models and as they are, keep the
//! bound and starve no quota, and the wrong rules are found.

use limiter_core::{Algorithm, Cost, Policy, Slots, Timestamp};
use limiter_test::{
    properties,
    subject::{Bare, Subject},
    turns::{
        IN_TURN, Log, LogRule, Means, Quota, Real, Turns, Windows, WindowsRule, excess, served,
        table,
    },
};

/// How many schedules a model tries. The step `release` of CI tries four times as many.
const SCHEDULES: u32 = 250;

/// Returns what schedules may do: one quota or several, with and without reservations and refunds.
fn means() -> impl Iterator<Item = Means> {
    (1..=6).flat_map(|quotas| {
        [(true, true), (true, false), (false, true), (false, false)]
            .map(|(reserves, refunds)| Means { quotas, reserves, refunds })
    })
}

/// How many windows can be taken within a time into which so many fit: an algorithm with windows admits one
/// more around an edge.
type Edges = fn(u64) -> u64;

/// Returns how many schedules exceed the bound.
fn over<T: Turns>(schedules: u32, edges: Edges, make: impl Fn(&[Quota]) -> T) -> usize {
    let schedules = u64::from(properties::cases(schedules));
    let exceeds = |seed, means| excess(seed, means, edges, &make) > 0;
    means().map(|means| (0..schedules).filter(|seed| exceeds(*seed, means)).count()).sum()
}

const ONE_EDGE: Edges = |windows| windows + 1;
const NO_EDGE: Edges = |windows| windows;

#[test]
fn a_window_for_each_length_keeps_the_bound() {
    for fades in [false, true] {
        let over = |rule| over(SCHEDULES, ONE_EDGE, |_| Windows::new(rule, fades));
        assert_eq!(over(WindowsRule::EachLength), 0, "fades: {fades}");
        let empty = over(WindowsRule::Empty);
        println!("{empty} schedules exceed the bound where windows open empty, fading: {fades}");
        assert!(empty > 0, "the schedules do not find the wrong rule");
    }
}

#[test]
fn a_log_that_keeps_the_newest_and_later_entries_keeps_the_bound() {
    let over = |rule| over(SCHEDULES, NO_EDGE, |_| Log::new(rule));
    assert_eq!(over(LogRule::NewestAndLater), 0);
    for rule in [LogRule::Newest, LogRule::OwnWindow] {
        let wrong = over(rule);
        println!("{wrong} schedules exceed the bound by {rule:?}");
        assert!(wrong > 0, "the schedules do not find the wrong rule {rule:?}");
    }
}

/// The algorithms with windows, and how many windows more than fit can be taken within a time.
fn algorithms() -> impl Iterator<Item = (Algorithm, Edges)> {
    let all = Algorithm::one_of_each().flat_map(|algorithm| match algorithm {
        // Of a few long slots, the longest of three quotas gets less.
        Algorithm::SubWindows(_) => {
            [10, 60].map(|number| Algorithm::SubWindows(Slots::strict(number))).to_vec()
        }
        other => vec![other],
    });
    all.filter_map(|algorithm| match algorithm {
        Algorithm::FixedWindow | Algorithm::SlidingCounter => Some((algorithm, ONE_EDGE as Edges)),
        Algorithm::SubWindows(_) | Algorithm::SlidingLog => Some((algorithm, NO_EDGE)),
        // Several lengths have more edges.
        Algorithm::AlignedWindow | Algorithm::Gcra | Algorithm::LeakyQueue { .. } => None,
    })
}

#[test]
fn the_transitions_keep_the_bound() {
    for (algorithm, edges) in algorithms() {
        // They take ten times as long as a model.
        let over = over(SCHEDULES / 10, edges, |quotas| Real::new(algorithm, quotas, Bare::new));
        assert_eq!(over, 0, "{algorithm:?}");
    }
}

/// Of 60/min and 60/61s in turn, a counter served 6 %.
#[test]
fn quotas_in_turn_starve_none() {
    for (algorithm, _) in algorithms() {
        for quotas in IN_TURN {
            let shares = served(&mut Real::new(algorithm, quotas, Bare::new), quotas, 6_000);
            assert!(
                shares.iter().all(|share| *share == 100),
                "{algorithm:?}, {quotas:?}: {shares:?}"
            );
        }
    }
}

#[test]
fn the_table_of_the_guide_is_current() {
    assert_eq!(
        table(),
        include_str!("../../docs/turns.md"),
        "write it by `cargo xtask compare turns`"
    );
}

#[test]
fn the_wrong_rules_starve_a_quota() {
    for fades in [false, true] {
        for (rule, quotas) in
            [(WindowsRule::DatedAnew, IN_TURN[0]), (WindowsRule::Longest, IN_TURN[2])]
        {
            let shares = served(&mut Windows::new(rule, fades), quotas, 24_000);
            println!("{rule:?}, fading: {fades}: {shares:?} %");
            assert!(shares.iter().any(|share| *share < 60), "{shares:?}");
        }
    }
}

/// Found by the 200,000 cases of law 1: the longer window counts since a moment that is not within the
/// shorter length, so a window of that length opens empty just before the edge of its grid. Law 9 allows
/// three times the larger limit.
#[test]
fn an_aligned_window_beside_one_of_twice_its_length_stays_within_law_9() {
    let parse = |text| Policy::parse("test", text).unwrap();
    let (short, long) = (parse("16/1ms by aligned-window"), parse("12/2ms by aligned-window"));
    let mut limiter = Bare::new(short.clone());
    let mut admitted = 0;
    for (nanos, policy, cost) in [
        (2_470_017, &long, 1),
        (3_525_104, &long, 10),
        (3_525_104, &short, 11),
        (4_000_000, &short, 12),
    ] {
        let decision =
            limiter.decide_by(Timestamp::from_nanos(nanos), policy, "key", Cost::of(cost));
        admitted += if decision.is_admitted() { cost } else { 0 };
    }
    assert_eq!(admitted - 1, 33, "within half a millisecond, of at most 48");
}

/// The guide said that `100/min` and `1000/h` admit at most 200 and 1,000 within a minute, but the hourly quota alone admits
/// more around the end of a window.
#[test]
fn an_hourly_window_admits_twice_its_limit_within_a_minute() {
    let hourly = Policy::parse("test", "1000/h by fixed-window").unwrap();
    let mut limiter = Bare::new(hourly.clone());
    for (second, cost) in [(0, 1), (3_570, 999), (3_600, 1_000)] {
        let now = Timestamp::from_nanos(second * 1_000_000_000);
        let decision = limiter.decide_by(now, &hourly, "key", Cost::of(cost));
        assert!(decision.is_admitted(), "1,999 within 30 s");
    }
}
