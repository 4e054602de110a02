//! Wakers that panic.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Waker},
};

use limiter_core::{Cost, Policy, Quota};

use super::{cost, evenly, ms, single};
use crate::panicking;

/// Returns the message of the panic, if `operate` panics.
fn panic_of(operate: impl FnOnce()) -> Option<&'static str> {
    let panic = catch_unwind(AssertUnwindSafe(operate)).err()?;
    Some(*panic.downcast().unwrap())
}

/// The wakes behind one that panicked were lost, and their tasks slept for ever.
#[test]
fn a_waker_that_panics_costs_no_other_task_its_wake() {
    let (limiter, _) = single(Policy::gcra("test", Quota::per_second(5)));
    assert!(limiter.check_n("key", cost(5)).is_admitted());
    let wakes = Arc::default();
    let mut waiters = [None, Some("first"), None, Some("second"), None].map(|message| {
        let mut acquire = limiter.acquire("key", Cost::ONE, None);
        let waker = panicking(message, &wakes);
        assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        acquire
    });
    assert_eq!(panic_of(|| limiter.reset("key")), Some("first"));
    assert_eq!(wakes.load(Ordering::Relaxed), 5);
    for acquire in &mut waiters {
        assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

/// A future whose poll had woken a task that panicked forgot its place, and was charged after it was
/// dropped.
#[test]
fn a_future_whose_poll_panics_gives_up_its_place() {
    let (limiter, clock) = single(evenly(10));
    assert!(limiter.check("key").is_admitted());
    let wakes = Arc::default();
    let mut first = limiter.acquire("key", Cost::ONE, None);
    let waker = panicking(Some("woken"), &wakes);
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The clock wakes it too.
    assert!(panic_of(|| clock.advance(ms(100))).is_some());
    let mut second = limiter.acquire("key", Cost::ONE, None);
    let poll = || {
        let _ = second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    };
    assert_eq!(panic_of(poll), Some("woken"));
    drop(second);
    clock.advance(ms(100));
    assert!(limiter.check("key").is_admitted());
}
