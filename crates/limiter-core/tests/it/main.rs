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
mod refunds;
mod serde;
mod threads;
mod usages;
mod validation;
mod waiting;
mod wall_clock;

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use limiter_core::{Algorithm, Builder, ManualClock, Policy, Source};

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

/// Returns the algorithms by which quotas of one window share states. The horizon of a queue depends on its depth.
fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::one_of_each().filter(|it| !matches!(it, Algorithm::LeakyQueue { .. }))
}

/// Returns how many slots a table for one key has.
fn slots(algorithm: Algorithm) -> u64 {
    if algorithm == Algorithm::Gcra { 8 } else { 16 }
}

/// Returns a limiter a day after its clock began, whose slots are all taken, by keys that are charged one after the other.
fn full(
    quota: &str,
    algorithm: Algorithm,
    settings: impl FnOnce(Builder) -> Builder,
) -> (Memory, ManualClock) {
    let policy = policy(&format!("{quota} by {algorithm}"));
    let (limiter, clock) = limiter_of(policy, |builder| settings(builder.capacity(1)));
    clock.advance(Duration::from_secs(86_400));
    for key in 0..slots(algorithm) {
        assert_eq!(limiter.check(key).source(), Source::State, "{algorithm}: slot {key}");
        clock.advance(Duration::from_nanos(1));
    }
    (limiter, clock)
}

/// A waker that counts the wakes of all of them, and then panics if it has a message.
struct Panicking(Option<&'static str>, Arc<AtomicUsize>);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        if let Some(message) = self.0 {
            resume_unwind(Box::new(message));
        }
    }
}

fn panicking(message: Option<&'static str>, wakes: &Arc<AtomicUsize>) -> Waker {
    Waker::from(Arc::new(Panicking(message, Arc::clone(wakes))))
}

/// Returns the rows of a table: a text on a line of its own, and below it what is expected of it.
fn pairs(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    std::iter::from_fn(move || Some((lines.next()?, lines.next().unwrap())))
}
