//! A clock for tests.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use super::{Clock, Timer};
use crate::{
    Timestamp,
    sync::{Mutex, lock, unpark_this_thread, wake_all},
};

/// A clock that stays still until it is moved, for tests.
///
/// Clones share one time. Moving the clock wakes the tasks and threads that wait for a moment up to
/// the new time.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Timestamp::from_nanos(1_000_000_000));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    /// When each sleep ends, and its waker. The sleeping task or thread owns the waker: to drop it
    /// cancels the sleep.
    sleeps: Vec<(Timestamp, Weak<Waker>)>,
}

impl ManualClock {
    /// Returns a clock at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock ahead by `by`, to [`Timestamp::MAX`] at most.
    pub fn advance(&self, by: Duration) {
        self.change(|now| now.saturating_add(by));
    }

    /// Sets the clock to `now`, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.change(|_| now);
    }

    /// Returns the earliest moment that a task or thread waits for, or `None`.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        let state = lock(&self.0);
        let sleeps = state.sleeps.iter().filter(|(_, waker)| waker.strong_count() > 0);
        sleeps.map(|(until, _)| *until).min()
    }

    /// Changes the time, and wakes all that wait for a moment up to the new one.
    fn change(&self, time: impl FnOnce(Timestamp) -> Timestamp) {
        let mut state = lock(&self.0);
        let now = time(state.now);
        state.now = now;
        let is_over = |(until, waker): &mut (Timestamp, Weak<Waker>)| {
            *until <= now || waker.strong_count() == 0
        };
        let over: Vec<_> = state.sleeps.extract_if(.., is_over).collect();
        // A woken task may read the clock at once.
        drop(state);
        let wakers = over.iter().filter_map(|(_, waker)| waker.upgrade());
        wake_all(wakers.map(Arc::unwrap_or_clone).collect());
    }

    /// Registers a sleep until the returned waker is dropped. Returns `None` if the clock has reached
    /// `until`.
    fn wake_at(&self, until: Timestamp, waker: &Waker) -> Option<Arc<Waker>> {
        let mut state = lock(&self.0);
        if state.now >= until {
            return None;
        }
        let waker = Arc::new(waker.clone());
        state.sleeps.retain(|(_, waker)| waker.strong_count() > 0);
        state.sleeps.push((until, Arc::downgrade(&waker)));
        Some(waker)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        lock(&self.0).now
    }

    /// Blocks until the clock is moved to `moment` or beyond, or the thread is unparked.
    fn park_until(&self, moment: Option<Timestamp>) {
        let sleep = moment.map(|moment| self.wake_at(moment, &unpark_this_thread()));
        // `Some(None)`: the clock has reached the moment already.
        if !matches!(sleep, Some(None)) {
            thread::park();
        }
    }
}

impl Timer for ManualClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        let mut sleep = None;
        Box::pin(poll_fn(move |cx| match clock.wake_at(moment, cx.waker()) {
            Some(waker) => {
                // Kept until the next poll, or until the future is dropped.
                sleep.replace(waker);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }))
    }
}
