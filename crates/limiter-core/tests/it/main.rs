//! What the crate promises, one file an area.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod bounds;
mod changes;
mod clock;
mod conformance;
mod entries;
mod extremes;
mod fallback;
mod full_table;
mod hashes;
mod in_flight;
mod interface;
mod keys;
mod laws;
mod lists;
mod memory;
mod model;
mod notation;
mod policies;
mod queues;
mod quotas;
mod refunds;
mod serde;
mod threads;
mod usages;
mod validation;
mod waiting;
mod wall_clock;

use limiter_core::{Builder, ManualClock, Policy};

type Memory = limiter_core::MemoryLimiter<ManualClock>;

/// Returns the policy of a limit, or of several that are separated by ` and `.
fn policy(text: &str) -> Policy {
    if !text.contains(" and ") {
        return Policy::parse("test", text).unwrap();
    }
    let limits = text.split(" and ").map(|limit| Policy::parse(limit, limit).unwrap());
    Policy::all_of("test", limits).unwrap()
}

/// Returns a limiter, and its clock, which a test moves.
fn limiter_of(policy: Policy, settings: impl FnOnce(Builder) -> Builder) -> (Memory, ManualClock) {
    let clock = ManualClock::new();
    let builder = settings(limiter_core::MemoryLimiter::builder(policy)).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

/// Returns a small limiter, and its clock.
fn limiter(text: &str) -> (Memory, ManualClock) {
    limiter_of(policy(text), |builder| builder.capacity(8))
}

/// Returns the rows of a table: a text on a line of its own, and below it what is expected of it.
fn pairs(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    std::iter::from_fn(move || Some((lines.next()?, lines.next().unwrap())))
}
