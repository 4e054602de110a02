//! The same traffic for every algorithm, for comparisons and pictures.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy, Timestamp};

use crate::subject::{InMemory, Subject};

/// An algorithm that is compared with the others.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name in a table.
    pub name: &'static str,
    /// Its name in a file's name.
    pub slug: &'static str,
    /// The algorithm, and its quota.
    pub policy: Policy,
}

/// Requests of one permit each.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// What it is.
    pub name: &'static str,
    /// When they arrive, in milliseconds.
    pub requests: Vec<u64>,
}

/// One request, and what became of it. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// When it arrived.
    pub at: u64,
    /// When it may continue, rounded down; `None` if it was refused.
    pub admitted: Option<u64>,
}

/// The traffic's limit: so many permits in so many seconds.
pub const QUOTA: (u64, u64) = (10, 10);

/// How long the traffic lasts, in seconds.
pub const END: u64 = 60;

/// Returns every algorithm with `permits` per `seconds`, in ten slots where there are slots.
///
/// # Panics
///
/// If an algorithm can't hold the quota.
#[must_use]
pub fn contenders(permits: u64, seconds: u64) -> Vec<Contender> {
    let queue = format!("burst 1 by leaky-queue depth {permits}");
    let all = [
        ("GCRA, token bucket, leaky bucket", "gcra", ""),
        ("leaky queue", "leaky-queue", &*queue),
        ("fixed window", "fixed-window", "by fixed-window"),
        ("aligned window", "fixed-window-aligned", "by aligned-window"),
        ("sliding counter", "sliding-counter", "by sliding-counter"),
        ("sub-windows", "sub-windows", "by sub-windows 10 slots"),
        ("sub-windows, loose", "sub-windows-loose", "by sub-windows 10 slots loose"),
        ("sub-windows, paced", "sub-windows-paced", "by sub-windows 10 slots paced"),
        ("sliding log", "exact-log", "by sliding-log"),
    ];
    let contender = |(name, slug, limit)| {
        let policy = Policy::parse(slug, &format!("{permits}/{seconds}s {limit}"));
        Contender { name, slug, policy: policy.expect("every algorithm serves it") }
    };
    all.map(contender).into()
}

/// Returns the traffic, each for [`QUOTA`] and until [`END`].
#[must_use]
pub fn all() -> [Traffic; 3] {
    let end = END * 1_000;
    let burst = |at: u64, number: u64| (0..number).map(move |index| at + index * 20);
    [
        Traffic {
            name: "steady and a fifth above the limit",
            requests: (0..end).step_by(833).collect(),
        },
        Traffic {
            name: "bursts of 15 after idle time",
            requests: [3_000, 21_000, 33_000, 52_000]
                .into_iter()
                .flat_map(|at| burst(at, 15))
                .collect(),
        },
        Traffic {
            name: "pairs of 12-request bursts around the edges of windows and slots",
            requests: [0]
                .into_iter()
                .chain(
                    [9_750, 10_010, 29_750, 39_050, 49_750, 50_010]
                        .into_iter()
                        .flat_map(|at| burst(at, 12)),
                )
                .collect(),
        },
    ]
}

/// Sends `traffic` to a limiter in memory. Where the policy has a queue, requests wait in it.
#[must_use]
pub fn send(policy: &Policy, traffic: &Traffic) -> Vec<Outcome> {
    let is_queue = |limit: &Limit| matches!(limit.algorithm(), Algorithm::LeakyQueue { .. });
    let has_queue = policy.limits().iter().any(is_queue);
    let within = if has_queue { Duration::MAX } else { Duration::ZERO };
    let mut limiter = InMemory::new(policy.clone());
    let requests = traffic.requests.iter().map(|&at| {
        let now = Timestamp::from_nanos(at * 1_000_000);
        let delay = limiter.reserve(now, "key", Cost::ONE, within).delay();
        let delay = delay.and_then(|delay| u64::try_from(delay.as_millis()).ok());
        Outcome { at, admitted: delay.map(|delay| at + delay) }
    });
    requests.collect()
}

/// Returns how many requests were refused although fewer than `limit` had been admitted in the
/// `window` that ends with them, in milliseconds: an exact log would have admitted them.
#[must_use]
pub fn wrongly_refused(outcomes: &[Outcome], limit: usize, window: u64) -> usize {
    let mut admitted: Vec<u64> = Vec::new();
    let mut wrong = 0;
    for outcome in outcomes {
        match outcome.admitted {
            Some(at) => admitted.push(at),
            None => {
                let counted = admitted.iter().filter(|at| outcome.at < **at + window).count();
                wrong += usize::from(counted < limit);
            }
        }
    }
    wrong
}
