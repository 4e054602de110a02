//! Where a limiter in memory reads the time.

#[cfg(feature = "std")]
mod system;

use alloc::sync::Arc;
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

#[cfg(feature = "std")]
pub use system::SystemClock;

use crate::Timestamp;

/// Tells the time.
///
/// Any start will do, since a limiter only compares moments of one clock. A clock that steps back
/// makes keys wait longer, by one recovery at most; one that steps ahead makes them recover.
pub trait Clock: Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until it is told to move, for tests.
///
/// Clones are one clock.
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
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Returns a clock at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock ahead, to [`Timestamp::MAX`] at most.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }

    /// Sets the clock, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
