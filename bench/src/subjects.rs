//! The policies that are measured, one line each.

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota, Slots};

use Traffic::{Few, Many};

/// A policy that is measured, and its traffic.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    pub(crate) traffic: Traffic,
}

/// How many keys are checked, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Traffic {
    /// So many that each is checked about once a second: states outlive the run.
    Many,
    /// So few that each is checked some hundred times within [`WINDOW`], so that slots fill and expire.
    /// A thousand slots are filled only at 100,000 checks a second.
    Few,
}

/// The window of policies whose slots have to expire during a run.
pub(crate) const WINDOW: Duration = Duration::from_millis(500);

impl Traffic {
    pub(crate) const fn keys(self) -> usize {
        match self {
            Many => 100_000,
            Few => 50,
        }
    }

    /// Returns how long it takes, in each round, until the states have their lasting size.
    pub(crate) const fn warm_up(self) -> Duration {
        match self {
            Many => Duration::ZERO,
            Few => WINDOW.saturating_add(Duration::from_millis(100)),
        }
    }
}

/// Returns the policies whose scripts are compared. All checks are admitted unless the name says
/// otherwise.
pub(crate) fn all() -> Result<Vec<Subject>, Error> {
    let subject = |name, traffic, policy| Subject { name, policy, traffic };
    let hourly = Quota::per_hour(100);
    let window = Quota::new(100_000, WINDOW)?;
    Ok(vec![
        subject("GCRA", Many, Policy::gcra(NAME, hourly)),
        subject("GCRA, refused", Many, Policy::gcra(NAME, Quota::per_hour(1))),
        subject("leaky queue", Many, Policy::leaky_queue(NAME, 50, hourly)),
        subject("fixed window", Many, Policy::fixed_window(NAME, hourly)),
        subject("fixed window, refused", Many, Policy::fixed_window(NAME, Quota::per_hour(1))),
        subject("aligned window", Many, Policy::aligned_window(NAME, hourly)),
        subject("sliding counter", Many, Policy::sliding_counter(NAME, hourly)),
        subject("2 limits", Many, several(2)?),
        subject("4 limits", Many, several(4)?),
        subject("8 limits", Many, several(8)?),
        subject("GCRA, with a remainder", Few, Policy::gcra(NAME, with_remainder())),
        subject("sub-windows, 10 slots", Few, sub_windows(window, 10)?),
        subject("sub-windows, 60 slots", Few, sub_windows(window, 60)?),
        subject("sub-windows, 1,000 slots", Few, sub_windows(window, 1_000)?),
        subject("log", Few, Policy::sliding_log(NAME, window)),
        subject("log of 100 entries, refused", Few, Policy::sliding_log(NAME, hourly)),
    ])
}

/// The name of all policies.
pub(crate) const NAME: &str = "bench";

/// Returns the name of a subject, which is 11 bytes long.
pub(crate) fn key(number: usize) -> String {
    format!("user{number:07}")
}

/// Returns a key as a limiter by GCRA stores it, for scripts that are compared with it.
pub(crate) fn stored_key(prefix: &str, subject: &str) -> String {
    format!("{prefix}:{{s{subject}}}:{NAME}")
}

/// Returns a quota whose interval, 909.09 microseconds, is stored with decimals. Its burst keeps checks
/// admitted that are faster.
pub(crate) const fn with_remainder() -> Quota {
    Quota::per_second(1_100).with_burst(1_000_000)
}

pub(crate) fn sub_windows(quota: Quota, slots: u32) -> Result<Policy, Error> {
    Policy::new(NAME, Algorithm::SubWindows(Slots::strict(slots)), quota)
}

/// Returns a policy of `number` limits by GCRA.
pub(crate) fn several(number: u64) -> Result<Policy, Error> {
    let limits = (1..=number).map(|limit| {
        let quota = Quota::new(100 * limit, Duration::from_secs(3_600 * limit * limit))?;
        Ok(Policy::gcra(&format!("limit {limit}"), quota))
    });
    Policy::all_of(NAME, limits.collect::<Result<Vec<_>, Error>>()?)
}
