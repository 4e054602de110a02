//! A clock whose Unix time is not the time since its start, and may step.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use limiter_core::{Clock, ManualClock, Timer, Timestamp};

/// A clock that is moved by its monotonic part, and whose wall part can be set apart from that.
#[derive(Clone)]
pub(crate) struct WallClock {
    pub(crate) monotonic: ManualClock,
    /// By how many nanoseconds Unix time is ahead of the monotonic time.
    ahead: Arc<AtomicU64>,
    timers: Arc<AtomicUsize>,
}

impl WallClock {
    pub(crate) fn new(unix_time: Duration) -> Self {
        let ahead = u64::try_from(unix_time.as_nanos()).unwrap();
        let ahead = Arc::new(AtomicU64::new(ahead));
        Self { monotonic: ManualClock::new(), ahead, timers: Arc::default() }
    }

    /// Sets the wall clock back, and leaves the monotonic time as it is.
    pub(crate) fn step_back(&self, by: Duration) {
        self.ahead.fetch_sub(u64::try_from(by.as_nanos()).unwrap(), Ordering::Relaxed);
    }

    /// Sets the wall clock ahead, and leaves the monotonic time as it is.
    pub(crate) fn step_ahead(&self, by: Duration) {
        self.ahead.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::Relaxed);
    }

    /// Returns how many timers have been made.
    pub(crate) fn timers(&self) -> usize {
        self.timers.load(Ordering::Relaxed)
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        self.monotonic.now()
    }

    fn unix_time(&self) -> Timestamp {
        let ahead = Duration::from_nanos(self.ahead.load(Ordering::Relaxed));
        self.monotonic.now().saturating_add(ahead)
    }

    fn park_until(&self, moment: Option<Timestamp>) {
        self.monotonic.park_until(moment);
    }
}

impl Timer for WallClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.timers.fetch_add(1, Ordering::Relaxed);
        self.monotonic.sleep_until(moment)
    }
}
