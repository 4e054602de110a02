//! The policies to measure, one line each.

use std::time::Duration;

use limiter_core::{Error, Policy, Quota, algorithm::Slots};

use Traffic::{Few, Many};

/// A policy that is measured, and how it is used.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    pub(crate) traffic: Traffic,
}

/// How many keys are checked, by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// So many that each is checked about once a second: states outlive the run.
    Many,
    /// So few that each is checked in each thousandth of [`WINDOW`]: all slots of a window are
    /// filled, and expire.
    Few,
}

/// The window of policies whose slots have to turn over.
pub(crate) const WINDOW: Duration = Duration::from_millis(500);

impl Traffic {
    pub(crate) const fn keys(self) -> usize {
        match self {
            Many => 100_000,
            Few => 50,
        }
    }

    /// Returns how long it takes, anew in each round, until states are what they stay.
    pub(crate) const fn warm_up(self) -> Duration {
        match self {
            Many => Duration::ZERO,
            Few => WINDOW.saturating_add(Duration::from_millis(100)),
        }
    }
}

/// Returns the policies whose scripts are compared. What is not said to be refused is admitted.
pub(crate) fn all() -> Result<Vec<Subject>, Error> {
    let subject = |name, traffic, policy: Result<Policy, Error>| {
        policy.map(|policy| Subject { name, policy, traffic })
    };
    let hourly = Quota::per_hour(100)?;
    let window = Quota::per(100_000, WINDOW)?;
    [
        subject("GCRA", Many, Policy::gcra(NAME, hourly)),
        subject("GCRA, with a remainder", Many, Policy::gcra(NAME, Quota::per_hour(97)?)),
        subject("GCRA, refused", Many, Policy::gcra(NAME, Quota::per_hour(1)?)),
        subject("leaky queue", Many, Policy::leaky_queue(NAME, 50, hourly)),
        subject("fixed window", Many, Policy::fixed_window(NAME, hourly)),
        subject("fixed window, refused", Many, Policy::fixed_window(NAME, Quota::per_hour(1)?)),
        subject("sliding counter", Many, Policy::sliding_counter(NAME, hourly)),
        subject("2 limits", Many, several(2)),
        subject("4 limits", Many, several(4)),
        subject("8 limits", Many, several(8)),
        subject("sub-windows, 10 slots", Few, sub_windows(window, 10)),
        subject("sub-windows, 60 slots", Few, sub_windows(window, 60)),
        subject("sub-windows, 1,000 slots", Few, sub_windows(window, 1_000)),
        subject("log", Few, Policy::sliding_log(NAME, window)),
        subject("log, refused mostly", Few, Policy::sliding_log(NAME, Quota::per(100, WINDOW)?)),
    ]
    .into_iter()
    .collect()
}

/// The name of all policies, so that all keys are of one length.
pub(crate) const NAME: &str = "bench";

/// Returns the name of a key of 22 bytes in the store, with a prefix of three.
pub(crate) fn key(number: usize) -> String {
    format!("user{number:07}")
}

pub(crate) fn sub_windows(quota: Quota, slots: u32) -> Result<Policy, Error> {
    Policy::sub_windows(NAME, quota, Slots::strict(slots)?)
}

/// Returns a policy of `number` limits by GCRA.
pub(crate) fn several(number: u64) -> Result<Policy, Error> {
    let limits = (1..=number).map(|limit| {
        let quota = Quota::per(100 * limit, Duration::from_secs(3_600 * limit * limit))?;
        Policy::gcra(&format!("limit {limit}"), quota)
    });
    Policy::several(NAME, limits.collect::<Result<Vec<_>, _>>()?)
}
