//! A clock for tests.

use alloc::sync::Arc;
#[cfg(feature = "std")]
use alloc::{boxed::Box, collections::BTreeMap};
use core::time::Duration;
#[cfg(feature = "std")]
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::Clock;
use crate::{
    Timestamp,
    sync::{AtomicU64, Ordering},
};
#[cfg(feature = "std")]
use crate::{
    sync::{Mutex, lock},
    thread_waker::unpark_this_thread,
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
pub struct ManualClock(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: AtomicU64,
    /// How many sleeps there ever were.
    #[cfg(feature = "std")]
    sleeps: AtomicU64,
    /// The wakers of tasks and threads, by the moment that they wait for and the number of the sleep.
    #[cfg(feature = "std")]
    wakers: Mutex<BTreeMap<(Timestamp, u64), Waker>>,
}

impl ManualClock {
    /// Returns a clock at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock ahead by `by`, to [`Timestamp::MAX`] at most.
    pub fn advance(&self, by: Duration) {
        let later = |now| Some(Timestamp::from_nanos(now).saturating_add(by).as_nanos());
        // Always succeeds, so concurrent calls all move the clock.
        let _ = self.0.now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        #[cfg(feature = "std")]
        self.wake();
    }

    /// Sets the clock to `now`, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.0.now.store(now.as_nanos(), Ordering::SeqCst);
        #[cfg(feature = "std")]
        self.wake();
    }

    /// Returns the earliest moment that a task or thread waits for, or `None`.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        lock(&self.0.wakers).first_key_value().map(|((until, _), _)| *until)
    }

    /// Wakes all that wait for a moment up to now.
    #[cfg(feature = "std")]
    fn wake(&self) {
        let now = self.now();
        let due = {
            let mut wakers = lock(&self.0.wakers);
            let later = wakers.split_off(&(now, u64::MAX));
            core::mem::replace(&mut *wakers, later)
        };
        // A woken task may take the lock.
        due.into_values().for_each(Waker::wake);
    }

    #[cfg(feature = "std")]
    fn sleep(&self, until: Timestamp) -> Sleep {
        let number = self.0.sleeps.fetch_add(1, Ordering::Relaxed);
        Sleep { clock: self.clone(), until, number }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.now.load(Ordering::SeqCst))
    }

    /// Blocks until the clock is moved to `moment` or beyond, or the thread is unparked.
    #[cfg(feature = "std")]
    fn park_until(&self, moment: Option<Timestamp>) {
        let sleep = moment.map(|until| self.sleep(until));
        if !sleep.as_ref().is_some_and(|sleep| sleep.is_over(unpark_this_thread())) {
            std::thread::park();
        }
    }
}

#[cfg(feature = "std")]
impl crate::Timer for ManualClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.sleep(moment))
    }
}

/// Ready when the clock has been moved to `until`.
#[cfg(feature = "std")]
struct Sleep {
    clock: ManualClock,
    until: Timestamp,
    number: u64,
}

#[cfg(feature = "std")]
impl Sleep {
    /// Returns whether the clock has been moved to the moment, and otherwise wakes when it is.
    fn is_over(&self, waker: Waker) -> bool {
        let id = (self.until, self.number);
        // Dropped after the lock is released, because a waker's drop may drop another sleep.
        let _former = lock(&self.clock.0.wakers).insert(id, waker);
        // The clock may have been moved before the waker was added.
        self.clock.now() >= self.until
    }
}

#[cfg(feature = "std")]
impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over(cx.waker().clone()) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(feature = "std")]
impl Drop for Sleep {
    fn drop(&mut self) {
        let _waker = lock(&self.clock.0.wakers).remove(&(self.until, self.number));
    }
}
