//! The rows that every limiter returns alike.

use std::sync::Arc;

use futures::executor::block_on;
use limiter_core::{Fallback, LimiterFuture, ManualClock, MemoryLimiter, Policy, Timestamp};
use limiter_test::{
    conformance,
    deferred::Deferred,
    subject::{Bare, InMemory, InStore, Operations, Process},
};

fn conforms<S: Operations>(make: impl Fn(Policy) -> S) {
    conformance::gcra(&make);
    conformance::windows(&make);
    conformance::several(&make);
    conformance::operations(&make);
    conformance::spans(&make);
    conformance::spans_by_quarter_nanos(&make);
}

#[test]
fn the_memory_limiter_conforms() {
    conforms(InMemory::new);
}

/// A store and a process by one clock.
struct Clocks(ManualClock);

impl Process for Clocks {
    fn set_clock(&self, now: Timestamp) {
        self.0.set(now);
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T {
        block_on(future).unwrap()
    }
}

type WithFallback = Fallback<Deferred, MemoryLimiter<ManualClock>>;

/// Returns a store and a limiter in memory, of which only one decides.
fn with_fallback(policy: &Policy, fails: bool) -> InStore<Clocks, WithFallback> {
    let clock = ManualClock::new();
    let memory = || {
        let builder = MemoryLimiter::builder(policy.clone()).clock(clock.clone());
        builder.entries_per_key(10_000).build().unwrap()
    };
    let store = Deferred::new(memory());
    store.set_failing(fails);
    let limiter = Fallback::new(store).with(memory());
    InStore::new(Arc::new(Clocks(clock)), limiter, std::slice::from_ref(policy))
}

#[test]
fn a_fallback_conforms_while_the_store_decides() {
    conforms(|policy| with_fallback(&policy, false));
}

/// A reset returns the store's error, so the rows of operations are left out.
#[test]
fn a_fallback_conforms_while_the_store_fails() {
    let make = |policy| with_fallback(&policy, true);
    conformance::gcra(make);
    conformance::windows(make);
    conformance::several(make);
    conformance::spans(make);
    conformance::spans_by_quarter_nanos(make);
}

#[test]
fn the_transitions_conform() {
    conforms(Bare::new);
}
