//! A clock for tests.

#[cfg(feature = "std")]
mod sleepers;

#[cfg(feature = "std")]
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
#[cfg(feature = "std")]
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::Clock;
#[cfg(feature = "std")]
use crate::thread_waker::unpark_this_thread;
use crate::{
    Timestamp,
    sync::{AtomicU64, Ordering},
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
    #[cfg(feature = "std")]
    sleepers: sleepers::Sleepers,
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
        self.0.sleepers.wake(self.now());
    }

    /// Sets the clock to `now`, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.0.now.store(now.as_nanos(), Ordering::SeqCst);
        #[cfg(feature = "std")]
        self.0.sleepers.wake(now);
    }

    /// Returns the earliest moment that a task or thread waits for, or `None`.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.0.sleepers.next()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.now.load(Ordering::SeqCst))
    }

    /// Blocks until the clock is moved to `moment` or beyond, or the thread is unparked.
    #[cfg(feature = "std")]
    fn park_until(&self, moment: Option<Timestamp>) {
        let Some(until) = moment else {
            return std::thread::park();
        };
        let id = self.0.sleepers.add(until, unpark_this_thread());
        // The clock may have been moved before the waker was added.
        if self.now() < until {
            std::thread::park();
        }
        self.0.sleepers.remove(id);
    }
}

#[cfg(feature = "std")]
impl crate::Timer for ManualClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Sleep { clock: self.clone(), until: moment, id: None })
    }
}

/// Ready when the clock has been moved to `until`.
#[cfg(feature = "std")]
struct Sleep {
    clock: ManualClock,
    until: Timestamp,
    /// `None` until it is polled.
    id: Option<sleepers::Id>,
}

#[cfg(feature = "std")]
impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleepers = &self.clock.0.sleepers;
        let id = sleepers.add(self.until, cx.waker().clone());
        if let Some(former) = self.id.replace(id) {
            self.clock.0.sleepers.remove(former);
        }
        // The clock may have been moved before the waker was added.
        if self.clock.now() < self.until { Poll::Pending } else { Poll::Ready(()) }
    }
}

#[cfg(feature = "std")]
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.0.sleepers.remove(id);
        }
    }
}
