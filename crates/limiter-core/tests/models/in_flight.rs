//! Requests in flight.

use std::task::{Context, Waker};

use limiter_core::{InFlight, ManualClock};
use loom::future::block_on;

use crate::{model, together};

/// Returns a limiter of one request in flight, with room for one key.
fn one_in_flight() -> InFlight<ManualClock> {
    let builder = InFlight::builder("one", 1).capacity(1).max_waiting(2);
    builder.clock(ManualClock::new()).build().expect("the settings are valid")
}

#[test]
fn of_two_requests_one_is_in_flight() {
    for (there, here) in [(7, 7), (7, 8)] {
        model(move || {
            let limiter = one_in_flight();
            let other = limiter.clone();
            let (there, here) =
                together(move || other.try_enter(there), || limiter.try_enter(here));
            assert_ne!(there.is_admitted(), here.is_admitted());
            drop((there, here));
            assert!(limiter.try_enter(8).is_admitted());
        });
    }
}

#[test]
fn a_permit_that_is_given_back_reaches_a_waiter_that_is_about_to_sleep() {
    model(|| {
        let limiter = one_in_flight();
        let held = limiter.try_enter(7);
        let other = limiter.clone();
        let wait = move || block_on(other.acquire(7, None)).into_permit().is_some();
        let (is_admitted, ()) = together(wait, || drop(held));
        assert!(is_admitted);
        assert_eq!((limiter.stats().held(), limiter.stats().keys()), (0, 0));
    });
}

#[test]
fn a_higher_limit_reaches_a_waiter_that_is_about_to_sleep() {
    model(|| {
        let limiter = one_in_flight();
        let _held = limiter.try_enter(7);
        let other = limiter.clone();
        let wait = move || block_on(other.acquire(7, None)).is_admitted();
        let (is_admitted, set) = together(wait, || limiter.set_limit(2));
        assert!(is_admitted && set.is_ok());
    });
}

#[test]
fn a_waiter_that_leaves_gives_up_the_permit_that_was_taken_for_it() {
    model(|| {
        let limiter = one_in_flight();
        let held = limiter.try_enter(7);
        let other = limiter.clone();
        let leave = move || {
            let mut acquire = other.acquire(7, None);
            let _ = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        };
        together(leave, || drop(held));
        assert_eq!((limiter.stats().held(), limiter.stats().waiting()), (0, 0));
        assert!(limiter.try_enter(8).is_admitted());
    });
}

#[test]
fn a_reset_beside_a_permit_that_is_given_back_frees_one_permit() {
    model(|| {
        let limiter = one_in_flight();
        let held = limiter.try_enter(7);
        let other = limiter.clone();
        let (entry, ()) = together(
            move || {
                other.reset(7);
                other.try_enter(7)
            },
            || drop(held),
        );
        assert!(entry.is_admitted());
        assert!(!limiter.try_enter(7).is_admitted());
    });
}

#[test]
fn two_limits_set_at_once_leave_one() {
    model(|| {
        let limiter = one_in_flight();
        let other = limiter.clone();
        together(move || other.set_limit(2), || limiter.set_limit(3)).1.expect("it is valid");
        let entry = limiter.try_enter(7);
        assert_eq!(entry.occupancy().limit(), limiter.limit());
    });
}
