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

/// Returns the rows of a table: a text on a line of its own, and below it what is expected of it.
fn pairs(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    std::iter::from_fn(move || Some((lines.next()?, lines.next().unwrap())))
}
