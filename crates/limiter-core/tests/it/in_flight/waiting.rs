//! Waiting for a permit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use limiter_core::{InFlight, ManualClock, Occupancy, Source};

use super::{Limiter, Task, limiter, permits};

const SECOND: Duration = Duration::from_secs(1);

fn wait(limiter: &Limiter, key: &'static str) -> Task {
    Task::waiting(limiter.acquire(key, None))
}

#[test]
fn a_free_permit_needs_no_wait() {
    let limiter = limiter(1);
    let mut task = Task::new(limiter.acquire("alice", None));
    let entry = task.poll().unwrap();
    assert_eq!((entry.is_admitted(), entry.occupancy()), (true, Occupancy::new(1, 1)));
    assert_eq!(limiter.stats().waiting(), 0);
}

#[test]
fn waiters_are_served_in_the_order_of_arrival() {
    let limiter = limiter(2);
    let mut held = permits((0..2).map(|_| limiter.try_enter("alice")));
    let mut tasks: Vec<_> = (0..5).map(|_| wait(&limiter, "alice")).collect();
    let _other = wait_behind(&limiter, "bob");
    assert_eq!(limiter.stats().waiting(), 6);
    for next in 0..5 {
        drop(held.remove(0));
        let wakes: Vec<_> = tasks.iter().map(Task::wakes).collect();
        assert!(
            wakes.iter().enumerate().all(|(index, &wakes)| wakes == usize::from(index <= next))
        );
        assert!(!limiter.try_enter("alice").is_admitted(), "it overtook a waiter");
        let entry = tasks[next].poll().unwrap();
        assert_eq!(entry.occupancy(), Occupancy::new(2, 2));
        held.extend(permits([entry]));
    }
}

/// Returns a waiter of a key, and what it waits for.
fn wait_behind(limiter: &Limiter, key: &'static str) -> (Task, Vec<limiter_core::InFlightPermit>) {
    let held = permits((0..limiter.limit()).map(|_| limiter.try_enter(key)));
    (wait(limiter, key), held)
}

#[test]
fn a_waiter_that_leaves_makes_way_for_the_next() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let first = wait(&limiter, "alice");
    let mut second = wait(&limiter, "alice");
    drop(first);
    assert_eq!((limiter.stats().waiting(), second.wakes()), (1, 0));
    drop(held);
    assert!(second.poll().unwrap().is_admitted());
}

/// A task that was cancelled after its permit was taken, and before it was polled.
#[test]
fn a_permit_that_was_taken_for_a_dropped_waiter_is_given_to_the_next() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let first = wait(&limiter, "alice");
    let mut second = wait(&limiter, "alice");
    drop(held);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    drop(second.poll());
    assert_eq!((limiter.held("alice"), limiter.stats().keys()), (0, 0));
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

/// The permit was taken in time, and the task was polled late.
#[test]
fn a_late_poll_keeps_a_permit_that_was_taken_in_time() {
    let clock = ManualClock::new();
    let limiter = InFlight::builder("test", 1).clock(clock.clone()).build().unwrap();
    let held = permits([limiter.try_enter("alice")]);
    let mut task = Task::waiting(limiter.acquire("alice", Some(SECOND)));
    drop(held);
    clock.advance(2 * SECOND);
    assert!(task.poll().unwrap().is_admitted());
}

#[test]
fn a_bound_of_zero_never_waits() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let entry = Task::new(limiter.acquire("alice", Some(Duration::ZERO))).poll().unwrap();
    assert!(!entry.is_admitted());
    drop(held);
    let entry = Task::new(limiter.acquire("alice", Some(Duration::ZERO))).poll().unwrap();
    assert!(entry.is_admitted());
}

#[test]
fn a_full_queue_refuses_at_once() {
    let builder = InFlight::builder("test", 1).max_waiting(2).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    let _held = [permits([limiter.try_enter("a")]), permits([limiter.try_enter("b")])];
    let first = wait(&limiter, "a");
    let _second = wait(&limiter, "b");
    let entry = Task::new(limiter.acquire("a", None)).poll().unwrap();
    assert_eq!((entry.is_admitted(), entry.occupancy()), (false, Occupancy::new(1, 1)));
    drop(first);
    let _third = wait(&limiter, "a");
}

#[test]
fn what_can_never_enter_is_refused_at_once() {
    let builder = InFlight::builder("test", 1).capacity(1).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    let _held = permits([limiter.try_enter("alice")]);
    let full = Task::new(limiter.acquire("bob", None)).poll().unwrap();
    assert_eq!((full.is_admitted(), full.occupancy().source()), (false, Source::FullTable));
    let zero = Task::new(limiter.acquire_under("alice", 0, None)).poll().unwrap();
    assert_eq!((zero.is_admitted(), zero.occupancy()), (false, Occupancy::new(1, 0)));
}

#[test]
fn a_higher_limit_serves_waiters() {
    let limiter = limiter(1);
    let _held = [permits([limiter.try_enter("a")]), permits([limiter.try_enter("b")])];
    let mut tasks = ["a", "a", "a", "b"].map(|key| wait(&limiter, key));
    let mut fixed = Task::waiting(limiter.acquire_under("b", 1, None));
    limiter.set_limit(3).unwrap();
    let wakes: Vec<_> = tasks.iter().map(Task::wakes).collect();
    assert_eq!((wakes, fixed.wakes()), (vec![1, 1, 0, 1], 0));
    let entries = tasks.each_mut().map(Task::poll);
    let admitted = entries.each_ref().map(|entry| entry.as_ref().map(|it| it.occupancy().held()));
    assert_eq!(admitted, [Some(2), Some(3), None, Some(2)]);
    assert!(fixed.poll().is_none());
    assert_eq!(limiter.stats().waiting(), 2);
}

#[test]
fn a_reset_serves_waiters() {
    let limiter = limiter(1);
    let before = permits([limiter.try_enter("alice")]);
    let mut tasks = [(); 2].map(|()| wait(&limiter, "alice"));
    limiter.reset("alice");
    let first = tasks[0].poll().unwrap();
    assert!(tasks[1].poll().is_none());
    drop(before);
    assert!(tasks[1].poll().is_none(), "a permit of before the reset was given back");
    drop(first);
    assert!(tasks[1].poll().unwrap().is_admitted());
}

/// The table was full, so another key could have taken the place while it was free.
#[test]
fn a_reset_keeps_the_place_of_a_key_with_waiters() {
    let builder = InFlight::builder("test", 1).capacity(1).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    let _before = permits([limiter.try_enter("alice")]);
    let mut task = wait(&limiter, "alice");
    limiter.reset("alice");
    assert_eq!(limiter.try_enter("bob").occupancy().source(), Source::FullTable);
    assert!(task.poll().unwrap().is_admitted());
}

#[test]
fn a_permit_that_was_taken_before_a_reset_gives_nothing_back() {
    let limiter = limiter(1);
    let held = permits([limiter.try_enter("alice")]);
    let mut tasks = [(); 2].map(|()| wait(&limiter, "alice"));
    drop(held);
    limiter.reset("alice");
    let [first, second] = tasks.each_mut().map(|task| task.poll().unwrap());
    assert_eq!(limiter.held("alice"), 1);
    drop(first);
    assert_eq!(limiter.held("alice"), 1);
    drop(second);
    assert_eq!((limiter.held("alice"), limiter.stats().keys()), (0, 0));
}

#[test]
fn a_higher_limit_of_a_call_passes_waiters_under_a_lower_one() {
    let limiter = limiter(4);
    let mut held = permits((0..3).map(|_| limiter.try_enter("db")));
    let mut sheddable = Task::waiting(limiter.acquire_under("db", 3, None));
    held.extend(permits([limiter.try_enter("db")]));
    let mut critical = wait(&limiter, "db");
    let mut critical_too = wait(&limiter, "db");
    drop(held.pop());
    assert_eq!((sheddable.wakes(), critical.wakes(), critical_too.wakes()), (0, 1, 0));
    let _first = critical.poll();
    // The first permit that is given back leaves three: there is room for the critical call only.
    held.clear();
    assert_eq!((sheddable.wakes(), critical_too.wakes()), (1, 1));
    let entries = [sheddable.poll(), critical_too.poll()];
    assert_eq!(entries.map(|entry| entry.unwrap().occupancy().held()), [3, 4]);
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

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("the waker fails"));
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_task_its_wake() {
    let limiter = limiter(1);
    let _held = [permits([limiter.try_enter("a")]), permits([limiter.try_enter("b")])];
    let mut failing = ["a", "b"].map(|key| limiter.acquire(key, None));
    for future in &mut failing {
        let waker = Waker::from(Arc::new(Panicking));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let mut tasks = ["a", "b"].map(|key| wait(&limiter, key));
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.set_limit(3))).is_err());
    assert!(tasks.iter_mut().all(|task| task.wakes() == 1 && task.poll().is_some()));
    drop(failing);
    assert_eq!(limiter.stats().waiting(), 0);
}
