//! Waiting for a permit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use limiter_core::{InFlight, ManualClock, Occupancy};

use super::{Limiter, Task, limiter, permits};
use crate::panicking;

const SECOND: Duration = Duration::from_secs(1);

fn wait(limiter: &Limiter, key: &'static str) -> Task {
    Task::waiting(limiter.acquire(key, None))
}

#[test]
fn a_future_that_was_never_polled_has_no_place() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let future = limiter.acquire("alice", None);
    assert_eq!(limiter.stats().waiting(), 0);
    drop((held, future));
    assert_eq!(limiter.held("alice"), 0);
}

#[test]
fn a_future_that_is_polled_after_its_end_takes_nothing() {
    let limiter = limiter(2);
    let mut task = Task::new(limiter.acquire("alice", None));
    let entry = task.poll();
    // It waited for ever, as if there were no permit.
    let poll = AssertUnwindSafe(|| task.poll());
    assert!(catch_unwind(poll).is_err(), "like any async block");
    assert_eq!((limiter.held("alice"), limiter.stats().waiting()), (1, 0));
    drop(task);
    assert_eq!(limiter.held("alice"), 1);
    drop(entry);
}

#[test]
fn a_wait_ends_at_its_bound() {
    let clock = ManualClock::new();
    let limiter = InFlight::builder("test", 1).clock(clock.clone()).build().unwrap();
    let held = permits([limiter.try_enter("alice")]);
    let mut task = Task::waiting(limiter.acquire("alice", Some(SECOND)));
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(task.poll().is_none());
    assert_eq!(task.wakes(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(task.wakes(), 1);
    let entry = task.poll().unwrap();
    assert_eq!((entry.is_admitted(), entry.occupancy()), (false, Occupancy::new(1, 1)));
    assert_eq!(limiter.stats().waiting(), 0);
    drop(held);
    assert_eq!(limiter.held("alice"), 0);
}

#[test]
fn another_waker_replaces_the_first() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let mut task = wait(&limiter, "alice");
    let former = std::mem::take(&mut task.signal);
    assert!(task.poll().is_none());
    assert_eq!(Arc::strong_count(&former), 1, "the former waker is kept");
    drop(held);
    assert_eq!((former.0.load(Ordering::Relaxed), task.wakes()), (0, 1));
}

#[test]
fn a_thread_waits_without_a_runtime() {
    let limiter = InFlight::new("test", 1).unwrap();
    let held = permits([limiter.try_enter("alice")]);
    let late = limiter.acquire_blocking("alice", Some(Duration::from_millis(1)));
    assert!(!late.is_admitted());
    let other = limiter.clone();
    let waiter = thread::spawn(move || other.acquire_blocking("alice", None).is_admitted());
    while limiter.stats().waiting() == 0 {
        thread::yield_now();
    }
    drop(held);
    assert!(waiter.join().unwrap());
}

/// A waker that calls the limiter, when it is called and when it is dropped.
struct Nosy(InFlight<ManualClock>);

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        drop(self.0.try_enter("alice"));
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        drop(self.0.try_enter("alice"));
    }
}

#[test]
fn no_waker_is_called_or_dropped_under_a_lock() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let wait = || {
        let mut future = limiter.acquire("alice", None);
        let mut poll = |waker: Waker| {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        };
        poll(Waker::from(Arc::new(Nosy(limiter.clone()))));
        poll(Waker::from(Arc::new(Nosy(limiter.clone()))));
        future
    };
    let (first, second, _third) = (wait(), wait(), wait());
    drop(first);
    drop(held);
    limiter.reset("alice");
    limiter.set_limit(5).unwrap();
    drop(second);
}

#[test]
fn a_waker_that_panics_costs_no_other_task_its_wake() {
    let limiter = limiter(1);
    let _held = [permits([limiter.try_enter("a")]), permits([limiter.try_enter("b")])];
    let mut failing = ["a", "b"].map(|key| limiter.acquire(key, None));
    for future in &mut failing {
        let waker = panicking(Some("the waker fails"), &Arc::default());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let mut tasks = ["a", "b"].map(|key| wait(&limiter, key));
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.set_limit(3))).is_err());
    assert!(tasks.iter_mut().all(|task| task.wakes() == 1 && task.poll().is_some()));
    drop(failing);
    assert_eq!(limiter.stats().waiting(), 0);
}
