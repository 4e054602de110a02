//! The machine's clock.

use std::{sync::LazyLock, time::SystemTime};

use crate::{Clock, Timestamp};

/// The machine's clock.
///
/// [`now`](Clock::now) is monotonic and counts from the first use of a `SystemClock` in the process.
/// It reads the processor's time-stamp counter where that is stable, and the operating system's
/// monotonic clock otherwise. [`unix_time`](Clock::unix_time) is the operating system's wall clock,
/// which may step.
///
/// All values share one calibration, which is done once a process. With the feature `tokio`, it is a
/// [`Timer`](crate::Timer) for tasks on tokio's runtime.
#[derive(Clone, Debug)]
pub struct SystemClock {
    source: quanta::Clock,
    /// The raw time of the first use.
    start: u64,
}

static SHARED: LazyLock<SystemClock> = LazyLock::new(|| {
    let source = quanta::Clock::new();
    SystemClock { start: source.raw(), source }
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
        Timestamp::from_nanos(self.source.delta_as_nanos(self.start, self.source.raw()))
    }

    /// Returns zero while the wall clock is set to a time before 1970.
    fn unix_time(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp::ZERO.saturating_add(since_epoch.unwrap_or_default())
    }
}

/// Must be polled within a tokio runtime that has its timer enabled.
#[cfg(feature = "tokio")]
impl crate::Timer for SystemClock {
    fn sleep_until(&self, moment: Timestamp) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(moment.saturating_since(self.now())))
    }
}
