//! The machine's clock.

use std::sync::LazyLock;

use crate::{Clock, Timestamp};

/// The machine's monotonic clock, read from the processor's time-stamp counter where that is
/// steady, and from the operating system otherwise.
///
/// Clones and new values share one calibration, which is done once a process.
#[derive(Clone, Debug)]
pub struct SystemClock {
    source: quanta::Clock,
    start: u64,
}

/// The calibration and the start that all values share.
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
}
