//! Models of what threads share, of which every interleaving is tried: `cargo xtask ci models`.
//!
//! A limiter has one slot here, so that keys compete for it. A waiter that is not woken shows as a
//! deadlock.

#![cfg(loom)]

mod in_flight;

use std::{
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use limiter_core::{
    Clock, Cost, ManualClock, MemoryLimiter, Policy, Quota, Receipt, Timer, Timestamp,
};
use loom::{future::block_on, thread};

/// One permit an hour.
fn hourly() -> Policy {
    Policy::gcra("hourly", Quota::per_hour(1))
}

/// Tries all interleavings.
fn model(model: impl Fn() + Send + Sync + 'static) {
    loom::model(model);
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

/// A clock in which the checker has no part: it is moved between the interleavings, and by so many ticks at each
/// reading. Its sleeps never end.
#[derive(Clone, Default)]
struct Still(Arc<AtomicU64>, u64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.fetch_add(self.1, Ordering::Relaxed))
    }
}

impl Timer for Still {
    fn sleep_until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }
}

type Keyed = MemoryLimiter<Still>;

/// Returns a limiter with room for one key, and its clock.
fn keyed() -> (Keyed, Still) {
    let clock = Still::default();
    let limiter = MemoryLimiter::builder(hourly()).capacity(1).clock(clock.clone()).build();
    (limiter.expect("one key fits"), clock)
}

/// Returns a limiter after key 7 was charged and has recovered, so that another key may claim its slot
/// while it is charged in it.
fn recovered() -> Keyed {
    let (limiter, clock) = keyed();
    assert!(limiter.check(7).is_admitted());
    clock.0.store(2 * 3_600_000_000_000, Ordering::Relaxed);
    limiter
}

#[test]
fn two_claims_of_one_key_admit_one() {
    let quota = Quota::per_hour(1);
    for policy in [Policy::gcra("test", quota), Policy::fixed_window("test", quota)] {
        model(move || {
            let builder =
                MemoryLimiter::builder(policy.clone()).capacity(1).clock(Still::default());
            let limiter = builder.build().expect("one key fits");
            let other = limiter.clone();
            let (there, here) =
                together(move || other.check(7).is_admitted(), || limiter.check(7).is_admitted());
            assert_ne!(there, here);
            assert!(!limiter.check(7).is_admitted());
        });
    }
}

#[test]
fn of_two_keys_that_compete_for_a_slot_one_is_refused() {
    model(|| {
        let (limiter, _) = keyed();
        let other = limiter.clone();
        let (there, here) =
            together(move || other.check(7).is_admitted(), || limiter.check(8).is_admitted());
        assert_ne!(there, here);
        assert!(!limiter.check(7).is_admitted());
        assert!(!limiter.check(8).is_admitted());
    });
}

#[test]
fn a_late_charge_by_the_former_owner_of_a_slot_is_not_lost() {
    // The checker finds different faults, depending on which thread runs first.
    for (there, here) in [(7, 8), (8, 7)] {
        model(move || {
            let limiter = recovered();
            let other = limiter.clone();
            let (there, here) = together(
                move || other.check(there).is_admitted(),
                || limiter.check(here).is_admitted(),
            );
            assert_ne!(there, here);
            assert!(!limiter.check(7).is_admitted());
            assert!(!limiter.check(8).is_admitted());
        });
    }
}

#[test]
fn a_refund_after_a_claim_does_not_bring_back_the_former_word() {
    model(|| {
        let limiter = recovered();
        let other = limiter.clone();
        let (back, here) = together(
            move || {
                let reservation = other.reserve(8, Cost::ONE, Duration::ZERO);
                reservation.into_receipt().map_or(0, |receipt| other.refund(receipt))
            },
            || limiter.check(7).is_admitted(),
        );
        // Whichever was first has the slot.
        assert!(here || back == 1);
        assert!(!here || !limiter.check(7).is_admitted());
    });
}

const HOUR: u64 = 3_600_000_000_000;

/// A stalled charge lands on another key's word that happens to be the one that it found.
#[test]
fn a_charge_that_lands_on_another_key_is_repeated() {
    model(|| {
        let (limiter, clock) = keyed();
        clock.0.store(2 * HOUR, Ordering::Relaxed);
        assert!(limiter.check(7).is_admitted());
        limiter.reset(7);
        let other = limiter.clone();
        let (there, ()) = together(
            move || other.check(7).is_admitted(),
            || {
                clock.0.store(2 * HOUR + 1, Ordering::Relaxed);
                let _ = limiter.check(8);
                clock.0.store(2 * HOUR, Ordering::Relaxed);
                limiter.reset(8);
            },
        );
        assert!(!there || !limiter.check(7).is_admitted());
    });
}

/// A permit of one quota takes the whole burst of their span, and one of the other half of it.
#[test]
fn quotas_that_compete_for_a_key_stay_within_one_burst() {
    model(|| {
        let (limiter, _) = keyed();
        let twice = Policy::gcra("twice", Quota::per_hour(2));
        let twice = limiter.with_policy(&twice).expect("there is room for a quota");
        let other = limiter.clone();
        let (there, here) = together(
            move || 2 * u32::from(other.check(7).is_admitted()),
            || {
                let halves = [(&twice, 1), (&limiter, 2), (&twice, 1)];
                halves.map(|(by, halves)| halves * u32::from(by.check(7).is_admitted()))
            },
        );
        assert_eq!(there + here.iter().sum::<u32>(), 2);
        assert!(!twice.check(7).is_admitted());
    });
}

/// A charge that is stalled while another quota charges its key, the key is reset, and its slot is
/// claimed by another key.
#[test]
fn a_claim_after_a_reset_keeps_its_debt() {
    model(|| {
        let limiter = recovered();
        let twice = Policy::gcra("twice", Quota::per_hour(2));
        let twice = limiter.with_policy(&twice).expect("there is room for a quota");
        let other = limiter.clone();
        let (_, here) = together(
            move || other.check(7).is_admitted(),
            || {
                let _ = twice.check(7);
                limiter.reset(7);
                limiter.check(8).is_admitted()
            },
        );
        assert!(!here || !limiter.check(8).is_admitted());
    });
}

type Single<C = Still> = MemoryLimiter<C>;

/// Returns a limiter with room for one key.
fn single<C: Clock + 'static>(policy: &Policy, clock: C) -> Single<C> {
    let builder = MemoryLimiter::builder(policy.clone()).capacity(1).clock(clock);
    builder.build().expect("one key is a capacity")
}

fn take<C: Clock>(limiter: &Single<C>) -> Option<Receipt> {
    limiter.reserve("key", Cost::ONE, Duration::ZERO).into_receipt()
}

/// Waits until there is a permit.
fn wait<C: Timer + 'static>(limiter: &Single<C>) {
    assert!(block_on(limiter.acquire("key", Cost::ONE, None)).is_admitted());
}

/// Polls once for a permit, and leaves the queue if the permit has to be waited for.
fn look(limiter: &Single) -> Option<Receipt> {
    let mut acquire = limiter.acquire("key", Cost::ONE, None);
    match acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reservation) => reservation.into_receipt(),
        Poll::Pending => None,
    }
}

/// With the state in a word, and under a lock.
fn each_store(test: impl Fn(Single) + Copy + Send + Sync + 'static) {
    for policy in [hourly(), Policy::sliding_log("log", Quota::per_hour(1))] {
        model(move || test(single(&policy, Still::default())));
    }
}

#[test]
fn a_refund_reaches_a_waiter_that_is_about_to_sleep() {
    each_store(|limiter| {
        let receipt = take(&limiter).expect("it is fresh");
        let other = limiter.clone();
        let ((), back) = together(move || wait(&other), || limiter.refund(receipt));
        assert_eq!(back, 1);
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_reset_reaches_a_waiter_that_is_about_to_sleep() {
    each_store(|limiter| {
        assert!(take(&limiter).is_some());
        let other = limiter.clone();
        together(move || wait(&other), || limiter.reset("key"));
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_waiter_that_leaves_makes_way_for_the_next() {
    each_store(|limiter| {
        let receipt = take(&limiter).expect("it is fresh");
        let other = limiter.clone();
        let (seen, _) = together(move || look(&other), || limiter.refund(receipt));
        // The one that polled has the permit, or has left it for the next.
        assert!(seen.is_some() || take(&limiter).is_some());
        assert!(take(&limiter).is_none());
    });
}

#[test]
fn a_moved_clock_reaches_a_waiter_that_is_about_to_sleep() {
    model(|| {
        let clock = ManualClock::new();
        let limiter = single(&hourly(), clock.clone());
        assert!(take(&limiter).is_some());
        together(move || wait(&limiter), || clock.advance(Duration::from_secs(3_600)));
    });
}

/// A waiter that judged the state by a reading from before the check found it impossible: the key was full,
/// and no receipt of the limiter was refunded any more.
#[test]
fn no_state_is_later_than_the_clock_of_a_waiter() {
    let quota = Quota::per_hour(3);
    for policy in [Policy::gcra("gcra", quota), Policy::fixed_window("window", quota)] {
        let policy = policy.with_horizon(Duration::ZERO).expect("it is valid");
        model(move || {
            let builder = MemoryLimiter::builder(policy.clone()).capacity(1);
            let limiter = builder.clock(Still(Arc::default(), 1)).build().expect("one key fits");
            let other = limiter.clone();
            let wait = move || {
                let mut acquire = other.acquire("key", Cost::ONE, None);
                acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            };
            let all = || limiter.reserve("key", Cost::of(3), Duration::ZERO).into_receipt();
            let (waited, taken) = together(wait, all);
            assert!(waited || taken.is_some());
            let back = taken.map(|receipt| limiter.refund(receipt));
            assert!(back.is_none_or(|back| back == 3));
        });
    }
}

/// Returns two limiters of one clock, each with one permit of key 7: whose slot it has, or not.
fn two(are_known: bool) -> [Keyed; 2] {
    let (first, clock) = keyed();
    let second = first.sibling(&hourly());
    if are_known {
        assert!(first.check(7).is_admitted() && second.check(7).is_admitted());
        clock.0.store(HOUR, Ordering::Relaxed);
    }
    [first, second]
}

fn list(limiters: [&Keyed; 2]) -> bool {
    let demands = limiters.map(|limiter| limiter.demand(7, Cost::ONE).without_receipt());
    MemoryLimiter::decide(&demands).is_admitted()
}

/// By debts that are changed without a lock, and where slots are taken.
#[test]
fn of_two_lists_in_other_orders_one_is_admitted() {
    for are_known in [true, false] {
        model(move || {
            let [first, second] = two(are_known);
            let (one, other) = (first.clone(), second.clone());
            let (there, here) = together(move || list([&one, &other]), || list([&second, &first]));
            assert_ne!(there, here);
        });
    }
}

#[test]
fn a_list_beside_a_check_charges_all_or_nothing() {
    for are_known in [true, false] {
        model(move || {
            let [first, second] = two(are_known);
            let (one, other) = (first.clone(), second.clone());
            let (there, here) =
                together(move || list([&one, &other]), || second.check(7).is_admitted());
            assert_ne!(there, here);
            assert_eq!(first.check(7).is_admitted(), here);
        });
    }
}
