//! What clocks return.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Waker},
    time::{Duration, SystemTime},
};

use limiter_core::{Clock, ManualClock, SystemClock, Timer, Timestamp};

use crate::panicking;

#[test]
fn the_system_clock_is_monotonic_and_knows_the_wall_clock() {
    let (one, other) = (SystemClock::new(), SystemClock::default());
    let first = one.now();
    assert!(other.now() >= first && one.now() >= first);
    // From the first use in this process, not from the Unix epoch.
    assert!(first < Timestamp::ZERO.saturating_add(Duration::from_secs(86_400)));

    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let unix_time = one.unix_time().saturating_since(Timestamp::ZERO);
    assert!(unix_time.abs_diff(wall) < Duration::from_secs(60), "{unix_time:?}, not {wall:?}");
}

#[test]
fn unix_time_is_the_current_time_by_default() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(100));
    assert_eq!(clock.unix_time(), clock.now());
    clock.set(Timestamp::from_nanos(7));
    assert_eq!(clock.unix_time(), Timestamp::from_nanos(7));
}

#[test]
fn a_sleep_that_is_polled_often_is_registered_once() {
    let clock = ManualClock::new();
    let mut sleep = clock.sleep_until(Timestamp::from_nanos(1));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    assert!(format!("{clock:?}").matches("Weak").count() <= 2);
}

/// The sleeps behind one whose waker panicked had left the clock and were never woken.
#[test]
fn a_waker_that_panics_costs_no_other_sleep_its_wake() {
    let (clock, wakes) = (ManualClock::new(), Arc::default());
    let _sleeps = [None, Some("a waker"), None].map(|message| {
        let mut sleep = clock.sleep_until(Timestamp::from_nanos(1));
        let waker = panicking(message, &wakes);
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep
    });
    let advance = || clock.advance(Duration::from_nanos(1));
    assert!(catch_unwind(AssertUnwindSafe(advance)).is_err());
    assert_eq!(wakes.load(Ordering::Relaxed), 3);
}
