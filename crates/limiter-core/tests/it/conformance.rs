//! The rows that every limiter returns alike.

use std::sync::Arc;

use limiter_core::{Fallback, ManualClock, MemoryLimiter, Policy};
use limiter_test::{
    conformance::{BY_QUARTER_NANOS, CHARGES, GCRA, OPERATIONS, SEVERAL, SPANS, WINDOWS, run},
    deferred::Deferred,
    subject::{Bare, InMemory, InStore, Local, Subject},
};

/// All but the rows of operations.
const MOST: [&str; 5] = [GCRA, WINDOWS, SEVERAL, SPANS, BY_QUARTER_NANOS];

fn conforms<S: Subject>(make: impl Fn(Policy) -> S) {
    run(&MOST, &make);
    run(&[OPERATIONS, CHARGES], &make);
}

#[test]
fn the_memory_limiter_conforms() {
    conforms(InMemory::new);
}

type WithFallback = Fallback<Deferred, MemoryLimiter<ManualClock>>;

/// Returns a store and a limiter in memory, of which only one decides.
fn with_fallback(policy: &Policy, fails: bool) -> InStore<Local, WithFallback> {
    let local = Local::default();
    let memory = || local.limiter(512, policy);
    let store = Deferred::new(memory());
    store.set_failing(fails);
    let limiter = Fallback::new(store).with(memory());
    InStore::of(Arc::new(local.clone()), limiter, std::slice::from_ref(policy))
}

#[test]
fn a_fallback_conforms_while_the_store_decides() {
    conforms(|policy| with_fallback(&policy, false));
}

/// A reset returns the store's error, so the rows of operations are left out.
#[test]
fn a_fallback_conforms_while_the_store_fails() {
    run(&MOST, |policy| with_fallback(&policy, true));
}

#[test]
fn the_transitions_conform() {
    conforms(Bare::new);
}
