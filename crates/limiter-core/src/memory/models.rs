//! Models of what threads share, of which every interleaving is tried: `cargo xtask models`.
//!
//! The words have one slot a line here, so that keys compete for it. A waiter that is not woken
//! shows as a deadlock.

#![cfg(loom)]

use alloc::sync::Arc;
use core::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::future::Future;

use loom::{future::block_on, thread};

use super::{
    acquire::{Acquire, Waiter},
    handle::Handle,
    scales::{Numbered, Scales},
    states::States,
    word::Now,
    words::Words,
};
use crate::{
    Cost, ManualClock, Policy, Quota, Receipt, Timestamp,
    algorithm::{Charge, Marks, Rule, View},
};

const HOUR: Duration = Duration::from_secs(3_600);

/// A moment at which a permit of `START` has recovered: to the tick, so not before.
const LATER: Timestamp = Timestamp::from_nanos(2 * 3_600_000_000_000);

/// Tries all interleavings.
fn model(model: impl Fn() + Send + Sync + 'static) {
    loom::model(model);
}

/// One permit an hour.
fn hourly() -> Policy {
    Policy::gcra("hourly", Quota::per_hour(1))
}

/// Words with room for one key, and the quota of one permit an hour.
struct Shared {
    words: Words,
    own: Numbered,
}

impl Shared {
    fn new() -> Arc<Self> {
        let policy = hourly();
        let Rule::Gcra(gcra) = policy.rule() else { unreachable!("it is GCRA") };
        let (scales, own) = Scales::new(gcra);
        Arc::new(Self { words: Words::new(1, scales), own })
    }

    fn take(&self, key: u64, at: Timestamp) -> Option<Charge> {
        let clock = || at;
        let now = &mut Now::read(&clock);
        let charged = self.words.take(key, &self.own, now, Cost::ONE, Duration::ZERO).1;
        charged.map(|(at, mark)| Charge { at, cost: Cost::ONE, marks: Marks::one(mark) })
    }

    fn give_back(&self, key: u64, at: Timestamp, charge: &Charge) -> u64 {
        let clock = || at;
        let give_back = |view: &View<'_>, _| self.own.give_back(view, charge, 1);
        self.words.change(key, &self.own, &mut Now::read(&clock), &give_back).unwrap_or(0)
    }
}

/// Runs one closure on a thread of its own, and the other here.
fn together<A: Send + 'static, B>(
    there: impl FnOnce() -> A + Send + 'static,
    here: impl FnOnce() -> B,
) -> (A, B) {
    let there = thread::spawn(there);
    let here = here();
    (there.join().expect("the other thread has ended"), here)
}

#[test]
fn two_claims_of_one_key_admit_one() {
    model(|| {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let (there, here) = together(
            move || other.take(7, Timestamp::ZERO).is_some(),
            || shared.take(7, Timestamp::ZERO).is_some(),
        );
        assert_ne!(there, here);
        assert!(shared.take(7, Timestamp::ZERO).is_none());
    });
}

#[test]
fn two_keys_that_compete_for_a_slot_are_both_charged() {
    model(|| {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let (there, here) = together(
            move || other.take(7, Timestamp::ZERO).is_some(),
            || shared.take(8, Timestamp::ZERO).is_some(),
        );
        assert!(there && here);
        assert!(shared.take(7, Timestamp::ZERO).is_none());
        assert!(shared.take(8, Timestamp::ZERO).is_none());
    });
}

#[test]
fn a_late_charge_by_the_former_owner_of_a_slot_is_not_lost() {
    model(|| {
        let shared = Shared::new();
        assert!(shared.take(7, Timestamp::ZERO).is_some());
        let other = Arc::clone(&shared);
        // Key 7 has recovered, so key 8 may claim its slot while key 7 is charged in it.
        let (there, here) =
            together(move || other.take(8, LATER).is_some(), || shared.take(7, LATER).is_some());
        assert!(there && here);
        assert!(shared.take(7, LATER).is_none());
        assert!(shared.take(8, LATER).is_none());
    });
}

#[test]
fn a_refund_after_a_claim_does_not_bring_back_the_former_word() {
    model(|| {
        let shared = Shared::new();
        assert!(shared.take(7, Timestamp::ZERO).is_some());
        let other = Arc::clone(&shared);
        let (back, here) = together(
            move || {
                let charge = other.take(8, LATER).expect("key 8 is fresh");
                other.give_back(8, LATER, &charge)
            },
            || shared.take(7, LATER).is_some(),
        );
        // Key 8 shares the overflow if key 7 was first, and then nothing comes back.
        assert!(here && back <= 1);
        assert!(shared.take(7, LATER).is_none());
    });
}

type Limiter = Handle<ManualClock>;

fn limiter(policy: Policy) -> Limiter {
    Handle::new(States::new(policy, None, 0, false), ManualClock::new())
}

fn take(limiter: &Limiter) -> Option<Receipt> {
    limiter.reserve(0, Cost::ONE, Duration::ZERO).into_receipt()
}

fn acquire(limiter: &Limiter) -> Acquire<ManualClock> {
    Acquire::new(Waiter::new(limiter.clone(), 0, Cost::ONE, None))
}

/// Waits until there is a permit.
fn wait(limiter: &Limiter) {
    assert!(block_on(acquire(limiter)).is_admitted());
}

/// Polls once for a permit, and leaves if there is none.
fn look(limiter: &Limiter) -> Option<Receipt> {
    let mut acquire = acquire(limiter);
    match Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reservation) => reservation.into_receipt(),
        Poll::Pending => None,
    }
}

/// With the states in a word, and under a lock.
fn each_store(test: impl Fn(Limiter) + Copy + Send + Sync + 'static) {
    model(move || test(limiter(hourly())));
    model(move || test(limiter(Policy::sliding_log("log", Quota::per_hour(1)))));
}

#[test]
fn a_refund_reaches_a_waiter_that_is_about_to_sleep() {
    each_store(|limiter| {
        let receipt = take(&limiter).expect("it is fresh");
        let other = limiter.clone();
        let ((), back) = together(move || wait(&other), || limiter.refund(&receipt));
        assert_eq!(back, 1);
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_reset_reaches_a_waiter_that_is_about_to_sleep() {
    each_store(|limiter| {
        assert!(take(&limiter).is_some());
        let other = limiter.clone();
        together(move || wait(&other), || limiter.reset(0));
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_waiter_that_leaves_makes_way_for_the_next() {
    each_store(|limiter| {
        let receipt = take(&limiter).expect("it is fresh");
        let other = limiter.clone();
        let (seen, _) = together(move || look(&other), || limiter.refund(&receipt));
        // The one that looked has the permit, or has left it for the next.
        assert!(seen.is_some() || take(&limiter).is_some());
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_moved_clock_reaches_a_waiter_that_is_about_to_sleep() {
    model(|| {
        let clock = ManualClock::new();
        let limiter = Handle::new(States::new(hourly(), None, 0, false), clock.clone());
        assert!(take(&limiter).is_some());
        together(move || wait(&limiter), || clock.advance(HOUR));
    });
}
