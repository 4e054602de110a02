//! Models of waiting and of all that is shared, whose every interleaving is tried: run by
//! `cargo xtask models`.
//!
//! One who is not woken is found out as a deadlock.

#![cfg(loom)]

use alloc::sync::Arc;
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use loom::{future::block_on, thread};

use super::{
    acquire::{Acquire, Waiting},
    engine::{Ask, Engine},
    engines::{Keyed, Shape, Unkeyed},
    handle::Handle,
    store::{Moment, Tiers},
    table::Table,
};
use crate::{Clock, Cost, ManualClock, Policy, Quota, Receipt, Timer, Timestamp, algorithm::Gcra};

const HOUR: Duration = Duration::from_secs(3_600);

/// Tries all interleavings.
fn check(model: impl Fn() + Send + Sync + 'static) {
    loom::model(model);
}

/// Tries all interleavings in which threads are interrupted no more than so often: with one more
/// interruption, it would take many seconds.
fn check_with(interruptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

type Limiter = Handle<Unkeyed, ManualClock>;

/// One permit an hour.
fn hourly() -> Policy {
    Policy::gcra("hourly", Quota::per_hour(1).unwrap()).unwrap()
}

/// So many permits in each hour.
fn log(permits: u64) -> Policy {
    Policy::sliding_log("log", Quota::per_hour(permits).unwrap()).unwrap()
}

fn limiter(policy: Policy) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Handle::new(policy, 1, clock.clone()).unwrap();
    make(&limiter);
    (limiter, clock)
}

/// Makes the states before there are threads: what they would wait for is not modelled.
fn make<K: Shape>(limiter: &Handle<K, ManualClock>) {
    let _ = limiter.peek(0);
}

fn acquire(limiter: &Limiter) -> Acquire<ManualClock> {
    Acquire::unkeyed(Waiting::new(limiter.clone(), 0, Cost::ONE, None))
}

/// Takes a permit now, or gets none.
fn take<K: Shape>(limiter: &Handle<K, ManualClock>, hash: u64) -> Option<Receipt> {
    limiter.reserve(hash, Cost::ONE, Duration::ZERO).into_receipt()
}

/// Waits until a permit is there.
fn wait(limiter: &Limiter) {
    assert!(block_on(acquire(limiter)).into_receipt().is_some());
}

/// Looks once for a permit, and leaves if there is none.
fn look(limiter: &Limiter) -> Option<Receipt> {
    let mut acquire = acquire(limiter);
    match Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reservation) => reservation.into_receipt(),
        Poll::Pending => None,
    }
}

#[test]
fn a_refund_reaches_one_who_is_about_to_wait() {
    check(|| {
        let (limiter, _) = limiter(hourly());
        let receipt = take(&limiter, 0).unwrap();
        let waiter = thread::spawn({
            let limiter = limiter.clone();
            move || wait(&limiter)
        });
        limiter.refund(receipt);
        waiter.join().unwrap();
        assert!(take(&limiter, 0).is_none());
    });
}

#[test]
fn a_reset_reaches_one_who_is_about_to_wait() {
    check(|| {
        let (limiter, _) = limiter(hourly());
        assert!(take(&limiter, 0).is_some());
        let waiter = thread::spawn({
            let limiter = limiter.clone();
            move || wait(&limiter)
        });
        limiter.reset(0);
        waiter.join().unwrap();
        assert!(take(&limiter, 0).is_none());
    });
}

#[test]
fn another_quota_reaches_one_who_is_about_to_wait() {
    check(|| {
        let (limiter, _) = limiter(log(1));
        assert!(take(&limiter, 0).is_some());
        let waiter = thread::spawn({
            let limiter = limiter.clone();
            move || wait(&limiter)
        });
        limiter.replace(log(2)).unwrap();
        waiter.join().unwrap();
        assert!(take(&limiter, 0).is_none());
    });
}

#[test]
fn the_next_is_told_the_time_when_the_first_leaves() {
    check_with(4, || {
        let (limiter, clock) = limiter(hourly());
        assert!(take(&limiter, 0).is_some());
        let waiter = thread::spawn({
            let limiter = limiter.clone();
            move || wait(&limiter)
        });
        assert!(look(&limiter).is_none());
        clock.advance(HOUR);
        waiter.join().unwrap();
    });
}

#[test]
fn the_next_is_called_when_the_first_leaves() {
    check_with(3, || {
        let (limiter, _) = limiter(hourly());
        let receipt = take(&limiter, 0).unwrap();
        let [leaver, waiter] = [(); 2].map(|()| limiter.clone());
        let leaver = thread::spawn(move || look(&leaver));
        let waiter = thread::spawn(move || wait(&waiter));
        limiter.refund(receipt);
        // One who was admitted gives its permit back.
        if let Some(receipt) = leaver.join().unwrap() {
            limiter.refund(receipt);
        }
        waiter.join().unwrap();
        assert!(take(&limiter, 0).is_none());
    });
}

#[test]
fn two_who_wait_both_go_when_time_goes_by() {
    check_with(2, || {
        let (limiter, clock) = limiter(hourly());
        assert!(take(&limiter, 0).is_some());
        let waiters = [(); 2].map(|()| {
            let (limiter, clock) = (limiter.clone(), clock.clone());
            thread::spawn(move || {
                wait(&limiter);
                clock.advance(HOUR);
            })
        });
        clock.advance(HOUR);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn no_one_takes_what_one_who_arrives_takes() {
    check(|| {
        let (limiter, _) = limiter(hourly());
        let other = limiter.clone();
        let arriving = thread::spawn(move || look(&other).is_some());
        let taken = take(&limiter, 0).is_some();
        assert!(arriving.join().unwrap() ^ taken);
        assert!(take(&limiter, 0).is_none());
    });
}

/// One who had looked at the clock before it had the lock once took the state for one from before
/// a step back of the clock, and lowered it.
#[test]
fn one_who_is_held_up_lowers_nothing() {
    check(|| {
        let (limiter, clock) = limiter(hourly());
        let other = limiter.clone();
        let held_up = thread::spawn(move || take(&other, 0).is_some());
        clock.advance(HOUR);
        let taken = [(); 2].map(|()| take(&limiter, 0).is_some());
        assert_ne!(taken, [true; 2], "two permits at once");
        held_up.join().unwrap();
    });
}

#[test]
fn nothing_overtakes_one_who_waits() {
    check(|| {
        let (limiter, _) = limiter(hourly());
        let receipt = take(&limiter, 0).unwrap();
        let mut waiting = acquire(&limiter);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut waiting).poll(&mut context).is_pending());
        let other = limiter.clone();
        let taker = thread::spawn(move || take(&other, 0).is_some());
        limiter.refund(receipt);
        assert!(!taker.join().unwrap());
        assert!(Pin::new(&mut waiting).poll(&mut context).is_ready());
    });
}

#[test]
fn a_key_is_charged_exactly_by_all_threads() {
    check(|| {
        let policy = Policy::gcra("two", Quota::per_hour(2).unwrap()).unwrap();
        let limiter = Handle::<Keyed, _>::new(policy, 1, ManualClock::new()).unwrap();
        make(&limiter);
        let other = limiter.clone();
        // Two keys of one line, and of one only two permits.
        let taken = |limiter: &Handle<Keyed, ManualClock>| {
            [1, 2, 1].map(|key| u32::from(take(limiter, key).is_some()))
        };
        let others = thread::spawn(move || taken(&other));
        let own = taken(&limiter);
        let others = others.join().unwrap();
        assert_eq!(own[0] + own[2] + others[0] + others[2], 2);
        assert_eq!(own[1] + others[1], 2);
    });
}

#[test]
fn what_was_promised_is_never_lowered() {
    check(|| {
        let gcra = Gcra::new(&Quota::per_hour(1).unwrap()).unwrap();
        let table = Table::new(Arc::new(Tiers::from(gcra)), 1);
        let engine = Arc::new(Engine::new(table));
        let ask = |hash| Ask { hash, tier: 0, moment: Moment::by(&|| Timestamp::ZERO) };
        let promising = Arc::clone(&engine);
        let promising = thread::spawn(move || {
            [0, 1, 2].map(|_| promising.reserve(ask(1), Cost::ONE, 2 * HOUR).1.is_some())
        });
        let taken = engine.reserve(ask(1), Cost::ONE, Duration::ZERO).1.is_some();
        assert!(engine.reserve(ask(2), Cost::ONE, Duration::ZERO).1.is_some());
        let promised = promising.join().unwrap().map(u32::from).iter().sum::<u32>();
        assert_eq!(promised + u32::from(taken), 3);
        let wait = engine.reserve(ask(1), Cost::ONE, Duration::ZERO).0.retry_after();
        assert_eq!(wait, Some(3 * HOUR));
    });
}

#[test]
fn a_quota_that_is_replaced_is_never_exceeded() {
    check(|| {
        let (limiter, _) = limiter(log(1));
        let other = limiter.clone();
        let taker = thread::spawn(move || {
            [(); 2].map(|()| u32::from(take(&other, 0).is_some())).iter().sum::<u32>()
        });
        limiter.replace(log(2)).unwrap();
        let own = u32::from(take(&limiter, 0).is_some());
        let taken = own + taker.join().unwrap();
        let last = u32::from(take(&limiter, 0).is_some());
        assert_eq!(taken + last, 2);
        assert!(take(&limiter, 0).is_none());
    });
}

#[test]
fn a_sleeper_is_woken_when_the_clock_is_moved() {
    check(|| {
        let clock = ManualClock::new();
        let sleep = clock.sleep_until(Timestamp::ZERO.saturating_add(HOUR));
        let sleeper = thread::spawn(move || block_on(sleep));
        clock.advance(HOUR);
        sleeper.join().unwrap();
        assert_eq!(clock.next_wake(), None);
    });
}

#[test]
fn two_who_move_a_clock_both_move_it() {
    check(|| {
        let clock = ManualClock::new();
        let sleep = clock.sleep_until(Timestamp::ZERO.saturating_add(2 * HOUR));
        let other = clock.clone();
        let mover = thread::spawn(move || other.advance(HOUR));
        clock.advance(HOUR);
        block_on(sleep);
        mover.join().unwrap();
        assert_eq!(clock.now(), Timestamp::ZERO.saturating_add(2 * HOUR));
    });
}
