//! Waiting for aligned windows, whose states count in Unix time, while waiters sleep by the monotonic
//! clock.

use std::{
    thread::{self, yield_now},
    time::Duration,
};

use limiter_core::{Clock, Cost, MemoryLimiter, Policy, Quota, Timestamp};

use super::{Crowd, ms};
use crate::wall_clock::WallClock;

/// Half a minute before a full hour.
const UNIX_TIME: Duration = Duration::from_secs(1_000_000 * 3_600 - 30);
const HOUR: Duration = Duration::from_secs(3_600);
const DEADLINE: Duration = Duration::from_secs(50);

fn hourly() -> (MemoryLimiter<WallClock>, WallClock) {
    let clock = WallClock::new(UNIX_TIME);
    let policy = Policy::aligned_window("test", Quota::per_hour(1));
    let limiter = MemoryLimiter::builder(policy).capacity(1).clock(clock.clone()).build().unwrap();
    assert!(limiter.check("key").is_admitted());
    (limiter, clock)
}

/// The deadline was kept in Unix time: after a step back of the wall clock by an hour, a waiter with
/// 50 s waited 3,630 s.
#[test]
fn a_step_back_of_the_wall_clock_moves_no_deadline() {
    for steps_after in [0, 10, 29] {
        let (limiter, clock) = hourly();
        let mut crowd = Crowd::new(&clock.monotonic);
        let waiter = crowd.join(limiter.acquire("key", Cost::ONE, Some(DEADLINE)));
        crowd.run_until(Duration::from_secs(steps_after));
        clock.step_back(HOUR);
        crowd.run();
        assert_eq!(crowd.admitted, []);
        let [(refused, at)] = crowd.refused[..] else { panic!("it is refused") };
        assert!(refused == waiter && at <= DEADLINE, "{at:?}");
        // Nothing was charged.
        assert_eq!(limiter.check("key").retry_after(), Some(HOUR + Duration::from_secs(30) - at));
    }
}

/// A waiter behind another one slept as long as the first, past its own deadline.
#[test]
fn a_step_back_of_the_wall_clock_moves_no_deadline_behind_another_waiter() {
    let (limiter, clock) = hourly();
    let mut crowd = Crowd::new(&clock.monotonic);
    let first = crowd.join(limiter.acquire("key", Cost::ONE, None));
    let deadline = HOUR + DEADLINE;
    let second = crowd.join(limiter.acquire("key", Cost::ONE, Some(deadline)));
    let third = crowd.join(limiter.acquire("key", Cost::ONE, None));
    clock.step_back(2 * HOUR);
    crowd.run();
    assert_eq!(crowd.refused, [(second, deadline)]);
    let seconds = |seconds| Duration::from_secs(seconds);
    assert_eq!(crowd.admitted, [(first, seconds(7_230)), (third, seconds(10_830))]);
}

/// The same on a thread.
#[test]
fn a_thread_is_refused_by_its_deadline_when_the_wall_clock_steps_back() {
    let (limiter, clock) = hourly();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire_blocking("key", Cost::ONE, Some(DEADLINE)));
        while clock.monotonic.next_wake().is_none() {
            yield_now();
        }
        clock.step_back(HOUR);
        while !waiter.is_finished() {
            let now = clock.now();
            if let Some(next) = clock.monotonic.next_wake().filter(|next| *next > now) {
                clock.monotonic.set(next);
            }
            yield_now();
        }
        assert!(!waiter.join().unwrap().is_admitted());
    });
    assert!(clock.now() <= Timestamp::ZERO.saturating_add(DEADLINE));
}

#[test]
fn a_step_ahead_of_the_wall_clock_refuses_nobody() {
    let (limiter, clock) = hourly();
    let mut crowd = Crowd::new(&clock.monotonic);
    let [first, second] =
        [(); 2].map(|()| crowd.join(limiter.acquire("key", Cost::ONE, Some(2 * HOUR))));
    clock.step_ahead(HOUR);
    crowd.run();
    assert_eq!(crowd.refused, []);
    assert_eq!(crowd.order(), [first, second]);
    let (_, last) = crowd.admitted[1];
    assert!(last <= HOUR, "{last:?}");
}

/// The due moment by the monotonic clock was computed at each poll, from two clocks that are read one
/// after the other, so each poll made a new timer.
#[test]
fn a_waiter_that_is_polled_again_keeps_its_timer() {
    let (limiter, clock) = hourly();
    let mut crowd = Crowd::new(&clock.monotonic);
    let waiter = crowd.join(limiter.acquire("key", Cost::ONE, None));
    for _ in 0..10 {
        clock.step_ahead(Duration::from_nanos(1));
        clock.monotonic.advance(ms(1));
        crowd.poll(waiter);
    }
    assert_eq!(clock.timers(), 1);
    crowd.run();
    assert_eq!(crowd.order(), [waiter]);
}
