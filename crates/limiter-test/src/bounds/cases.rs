//! The algorithms, with quotas small enough to search all that matters.

use std::time::Duration;

use limiter_core::{Algorithm, Limit, Policy, Quota, Slots};

use super::{
    adversary::{Effort, Means, attack},
    published,
};

/// An algorithm with a quota, and how far it was brought.
#[derive(Clone, Debug)]
pub struct Row {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The quota, as it is written.
    pub quota: String,
    /// The bound in a window of the quota's length.
    pub bound: super::Bound,
    /// The most that the adversary found.
    pub found: u128,
}

/// Returns a row for each limit of each case, in the order of the cases.
#[must_use]
pub fn rows(climbs: u32, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (algorithm, policy) in policies() {
        for limit in policy.limits() {
            let effort = Effort { climbs, seed, means: Means::Refund };
            let found = attack(&policy, limit, limit.quota().window(), effort).most;
            rows.push(Row { algorithm, quota: quota(limit), bound: published(limit), found });
        }
    }
    rows
}

/// Returns the quota of `limit` and what else it was given, as it is written.
#[must_use]
pub fn quota(limit: &Limit) -> String {
    let quota = limit.quota();
    match limit.algorithm() {
        Algorithm::SubWindows(slots) => format!("{quota}, {slots}"),
        Algorithm::LeakyQueue { depth } => format!("{quota}, depth {depth}"),
        _ => quota.to_string(),
    }
}

/// Returns each algorithm with a few quotas.
///
/// # Panics
///
/// If one of them is not valid.
#[must_use]
pub fn policies() -> Vec<(&'static str, Policy)> {
    let slots = Slots::strict;
    let loose = Slots::loose;
    let queue = |depth| Algorithm::LeakyQueue { depth };
    let cases = [
        ("GCRA", Algorithm::Gcra, 5, 1_000, Some(2)),
        ("GCRA", Algorithm::Gcra, 3, 1_000, None),
        ("token bucket", Algorithm::Gcra, 3, 1_000, Some(10)),
        ("leaky bucket, meter", Algorithm::Gcra, 4, 60_000, Some(1)),
        ("leaky bucket, queue", queue(10), 5, 1_000, Some(1)),
        ("leaky bucket, queue", queue(2), 4, 1_000, Some(3)),
        ("fixed window, first use", Algorithm::FixedWindow, 2, 1_000, None),
        ("fixed window, first use", Algorithm::FixedWindow, 5, 1_000, None),
        ("fixed window, aligned", Algorithm::AlignedWindow, 1, 1_000, None),
        ("fixed window, aligned", Algorithm::AlignedWindow, 5, 60_000, None),
        ("sliding counter", Algorithm::SlidingCounter, 1, 1_000, None),
        ("sliding counter", Algorithm::SlidingCounter, 5, 1_000, None),
        ("sub-windows, strict", Algorithm::SubWindows(slots(1)), 3, 1_000, None),
        ("sub-windows, strict", Algorithm::SubWindows(slots(7)), 5, 1_000, None),
        ("sub-windows, loose", Algorithm::SubWindows(loose(2)), 3, 1_000, None),
        ("sub-windows, loose", Algorithm::SubWindows(loose(7)), 5, 1_000, None),
        ("sub-windows, strict paced", Algorithm::SubWindows(slots(3).paced()), 5, 1_000, None),
        ("sub-windows, strict paced", Algorithm::SubWindows(slots(10).paced()), 3, 60_000, None),
        ("sub-windows, loose paced", Algorithm::SubWindows(loose(3).paced()), 5, 1_000, None),
        ("sub-windows, loose paced", Algorithm::SubWindows(loose(10).paced()), 3, 60_000, None),
        ("exact log", Algorithm::SlidingLog, 1, 1_000, None),
        ("exact log", Algorithm::SlidingLog, 5, 1_000, None),
    ];
    let single = cases.into_iter().map(|(name, algorithm, permits, window, burst)| {
        (name, policy("one", algorithm, permits, window, burst))
    });
    let several = Policy::all_of(
        "both",
        [
            policy("short", Algorithm::SlidingLog, 2, 1_000, None),
            policy("long", Algorithm::AlignedWindow, 5, 10_000, None),
        ],
    );
    single.chain([("several limits", several.expect("the limits make sense"))]).collect()
}

fn policy(
    name: &str,
    algorithm: Algorithm,
    permits: u64,
    window: u64,
    burst: Option<u64>,
) -> Policy {
    let quota = Quota::new(permits, Duration::from_millis(window)).expect("a valid quota");
    let quota = burst.map_or(quota, |burst| quota.with_burst(burst));
    Policy::new(name, algorithm, quota).expect("a valid policy")
}
