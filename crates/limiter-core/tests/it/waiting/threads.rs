//! Waiting on threads.

use std::{
    sync::Mutex,
    thread::{self, yield_now},
    time::Duration,
};

use limiter_core::{Clock, Cost, ManualClock};

use super::{Crowd, Keyed, cost, evenly, keyed, ms, now, single};

/// Waits until it takes `wait` for one more to have its turn: until that many are in the queue.
fn until_wait_is(wait: Duration, limiter: &Keyed) {
    while limiter.check_n("key", Cost::ONE).retry_after() != Some(wait) {
        yield_now();
    }
}

/// Waits until someone waits by the clock, and moves it there.
fn step(clock: &ManualClock) {
    loop {
        if let Some(next) = clock.next_wake().filter(|next| *next > clock.now()) {
            return clock.set(next);
        }
        yield_now();
    }
}

#[test]
fn threads_are_admitted_in_order_and_evenly() {
    const THREADS: u32 = 20;
    let (limiter, clock) = keyed(evenly(100));
    assert!(limiter.check_n("key", Cost::ONE).is_admitted());
    let admitted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (limiter, clock, admitted) = (&limiter, &clock, &admitted);
            scope.spawn(move || {
                let reservation = limiter.acquire_blocking("key", Cost::ONE, None);
                assert_eq!(reservation.delay(), Some(Duration::ZERO));
                admitted.lock().unwrap().push((index, now(clock)));
            });
            until_wait_is(ms(10) * (index + 2), limiter);
        }
        for turn in 1..=THREADS {
            step(&clock);
            assert_eq!(now(&clock), ms(10) * turn);
            while admitted.lock().unwrap().len() < turn as usize {
                yield_now();
            }
        }
    });
    let expected: Vec<_> = (0..THREADS).map(|index| (index, ms(10) * (index + 1))).collect();
    assert_eq!(admitted.into_inner().unwrap(), expected);
}

#[test]
fn threads_and_tasks_wait_in_one_queue() {
    let (limiter, clock) = keyed(evenly(100));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    let admitted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for index in 1..=10 {
            if index % 2 == 0 {
                crowd.join(limiter.acquire("key", Cost::ONE, None));
            } else {
                let (limiter, clock, admitted) = (&limiter, &clock, &admitted);
                scope.spawn(move || {
                    let within = Some(ms(10) * index);
                    assert!(limiter.acquire_blocking("key", Cost::ONE, within).delay().is_some());
                    admitted.lock().unwrap().push(now(clock));
                });
            }
            until_wait_is(ms(10) * (index + 1), &limiter);
        }
        for turn in 1..=10 {
            // The clock may be stepped only when the first waiter has set its timer.
            while clock.next_wake().is_none_or(|next| next <= clock.now()) {
                crowd.settle();
                yield_now();
            }
            step(&clock);
            assert_eq!(now(&clock), ms(10) * turn);
            while admitted.lock().unwrap().len() + crowd.admitted.len() <= turn as usize {
                crowd.settle();
                yield_now();
            }
        }
    });
    let (odd, even) = ([10, 30, 50, 70, 90].map(ms), [0, 20, 40, 60, 80, 100].map(ms));
    assert_eq!(admitted.into_inner().unwrap(), odd);
    assert_eq!(crowd.admitted.iter().map(|(_, at)| *at).collect::<Vec<_>>(), even);
}

#[test]
fn a_thread_is_refused_at_once_where_the_deadline_would_pass() {
    let (limiter, _) = single(evenly(100));
    assert!(limiter.acquire_blocking("key", Cost::ONE, None).is_admitted());
    let refused =
        limiter.acquire_blocking("key", Cost::ONE, Some(ms(10) - Duration::from_nanos(1)));
    assert_eq!(refused.decision().retry_after(), Some(ms(10)));
    assert!(limiter.acquire_blocking("key", cost(2), None).decision().retry_after().is_none());
}

/// The clock was once moved between the read of it and the sleep, which then took too long.
#[test]
fn threads_never_sleep_past_their_moment() {
    let (limiter, clock) = single(evenly(1_000));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            for _ in 0..500 {
                assert!(limiter.acquire_blocking("key", Cost::ONE, None).is_admitted());
            }
        });
        // Moved by a tenth of the interval, whatever the thread is doing.
        while !waiter.is_finished() {
            clock.advance(Duration::from_micros(100));
            let late = clock.next_wake().map(|next| next.saturating_since(clock.now()));
            assert!(late.is_none_or(|late| late <= ms(1)), "{late:?}");
        }
    });
}
