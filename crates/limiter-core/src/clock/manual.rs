//! A clock for tests.

#[cfg(feature = "std")]
mod sleepers;

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

/// A clock that stands still until it is told to move, for tests.
///
/// Clones are one clock. Tasks and threads that wait by it are woken when it is moved to their
/// moment.
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

    /// Moves the clock ahead, to [`Timestamp::MAX`] at most.
    pub fn advance(&self, by: Duration) {
        let later = |now| Some(Timestamp::from_nanos(now).saturating_add(by).as_nanos());
        // Always some: two who move the clock at once both move it.
        let _ = self.0.now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        #[cfg(feature = "std")]
        self.0.sleepers.wake(self.now());
    }

    /// Sets the clock, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.0.now.store(now.as_nanos(), Ordering::SeqCst);
        #[cfg(feature = "std")]
        self.0.sleepers.wake(now);
    }

    /// Returns the earliest moment that someone waits for.
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

    /// Blocks until the clock has been moved to `moment`, or another thread has unparked this one.
    #[cfg(feature = "std")]
    fn park_until(&self, moment: Option<Timestamp>) {
        let Some(until) = moment else {
            return std::thread::park();
        };
        let place = self.0.sleepers.add(until, unpark_this_thread());
        // The clock may have been moved before there was someone to wake.
        if self.now() < until {
            std::thread::park();
        }
        self.0.sleepers.remove(place);
    }
}

#[cfg(feature = "std")]
impl crate::Timer for ManualClock {
    fn sleep_until(&self, moment: Timestamp) -> crate::Sleep {
        alloc::boxed::Box::pin(Nap { clock: self.clone(), until: moment, place: None })
    }
}

/// A sleep until the clock has been moved to a moment.
#[cfg(feature = "std")]
struct Nap {
    clock: ManualClock,
    until: Timestamp,
    place: Option<sleepers::Place>,
}

#[cfg(feature = "std")]
impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleepers = &self.clock.0.sleepers;
        let place = sleepers.add(self.until, cx.waker().clone());
        if let Some(former) = self.place.replace(place) {
            self.clock.0.sleepers.remove(former);
        }
        // The clock may have been moved before there was someone to wake.
        if self.clock.now() < self.until { Poll::Pending } else { Poll::Ready(()) }
    }
}

#[cfg(feature = "std")]
impl Drop for Nap {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.clock.0.sleepers.remove(place);
        }
    }
}
