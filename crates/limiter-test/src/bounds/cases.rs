//! The algorithms, with quotas small enough to search all that matters.

use std::time::Duration;

use limiter_core::{Kind, Limit, Policy, Quota, algorithm::Slots, algorithm::Start};

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
    match limit.kind() {
        Kind::SubWindows(slots) => format!("{quota}, {slots}"),
        Kind::LeakyQueue { depth } => format!("{quota}, depth {depth}"),
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
    let slots = |number| Slots::strict(number).expect("a few slots");
    let loose = |number| Slots::loose(number).expect("a few slots");
    let queue = |depth| Kind::LeakyQueue { depth };
    let cases = [
        ("GCRA", Kind::Gcra, 5, 1_000, Some(2)),
        ("GCRA", Kind::Gcra, 3, 1_000, None),
        ("token bucket", Kind::TokenBucket, 3, 1_000, Some(10)),
        ("leaky bucket, meter", Kind::LeakyBucket, 4, 60_000, Some(1)),
        ("leaky bucket, queue", queue(10), 5, 1_000, Some(1)),
        ("leaky bucket, queue", queue(2), 4, 1_000, Some(3)),
        ("fixed window, first use", Kind::FixedWindow(Start::FirstUse), 2, 1_000, None),
        ("fixed window, first use", Kind::FixedWindow(Start::FirstUse), 5, 1_000, None),
        ("fixed window, aligned", Kind::FixedWindow(Start::Aligned), 1, 1_000, None),
        ("fixed window, aligned", Kind::FixedWindow(Start::Aligned), 5, 60_000, None),
        ("sliding counter", Kind::SlidingCounter, 1, 1_000, None),
        ("sliding counter", Kind::SlidingCounter, 5, 1_000, None),
        ("sub-windows, strict", Kind::SubWindows(slots(1)), 3, 1_000, None),
        ("sub-windows, strict", Kind::SubWindows(slots(7)), 5, 1_000, None),
        ("sub-windows, loose", Kind::SubWindows(loose(1)), 3, 1_000, None),
        ("sub-windows, loose", Kind::SubWindows(loose(7)), 5, 1_000, None),
        ("sub-windows, strict paced", Kind::SubWindows(slots(3).paced()), 5, 1_000, None),
        ("sub-windows, strict paced", Kind::SubWindows(slots(10).paced()), 3, 60_000, None),
        ("sub-windows, loose paced", Kind::SubWindows(loose(3).paced()), 5, 1_000, None),
        ("sub-windows, loose paced", Kind::SubWindows(loose(10).paced()), 3, 60_000, None),
        ("exact log", Kind::SlidingLog, 1, 1_000, None),
        ("exact log", Kind::SlidingLog, 5, 1_000, None),
    ];
    let single = cases.into_iter().map(|(name, kind, permits, window, burst)| {
        (name, policy("one", kind, permits, window, burst))
    });
    let several = Policy::several(
        "both",
        [
            policy("short", Kind::SlidingLog, 2, 1_000, None),
            policy("long", Kind::FixedWindow(Start::Aligned), 5, 10_000, None),
        ],
    );
    single.chain([("several limits", several.expect("the limits make sense"))]).collect()
}

fn policy(name: &str, kind: Kind, permits: u64, window: u64, burst: Option<u64>) -> Policy {
    let quota = Quota::per(permits, Duration::from_millis(window)).expect("a valid quota");
    let quota = burst.map_or(Ok(quota), |burst| quota.with_burst(burst)).expect("a valid burst");
    Policy::new(name, kind, quota).expect("a valid policy")
}
