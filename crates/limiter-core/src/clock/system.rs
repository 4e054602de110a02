//! The machine's clock.

use std::{sync::LazyLock, time::SystemTime};

use crate::{Clock, Timestamp};

/// The machine's monotonic clock, read from the processor's time-stamp counter where that is
/// steady, and from the operating system otherwise.
///
/// Its zero is the Unix epoch, by what the operating system's clock showed when the first value of
/// the process was made; from then on it goes evenly, whatever that clock is set to.
///
/// Clones and new values share one calibration, which is done once a process. With the feature
/// `tokio`, it is a [`Timer`](crate::Timer) for tasks on tokio's runtime.
#[derive(Clone, Debug)]
pub struct SystemClock {
    source: quanta::Clock,
    start: u64,
    /// What `start` is by the operating system's clock, in nanoseconds since the Unix epoch.
    epoch: u64,
}

/// The calibration and the start that all values share.
static SHARED: LazyLock<SystemClock> = LazyLock::new(|| {
    let source = quanta::Clock::new();
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = u64::try_from(since_epoch.as_nanos()).unwrap_or(0);
    SystemClock { start: source.raw(), source, epoch }
});

impl SystemClock {
    /// Returns the clock. The first call in a process may take up to 200 ms to calibrate it.
    #[must_use]
    pub fn new() -> Self {
        SHARED.clone()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let elapsed = self.source.delta_as_nanos(self.start, self.source.raw());
        Timestamp::from_nanos(self.epoch.saturating_add(elapsed))
    }
}

/// Must be polled within a tokio runtime that has its timer enabled.
#[cfg(feature = "tokio")]
impl crate::Timer for SystemClock {
    fn sleep_until(&self, moment: Timestamp) -> crate::Sleep {
        alloc::boxed::Box::pin(tokio::time::sleep(moment.saturating_since(self.now())))
    }
}
