//! What is left of a quota for one of several processes.

use core::{num::NonZeroU32, time::Duration};

use super::Quota;
use crate::algorithm::Meter;

impl Quota {
    /// Returns the share of one of so many processes, rounded down; where that is less than a permit
    /// a window, a permit in several windows.
    pub(crate) fn shared_among(&self, processes: NonZeroU32) -> Self {
        let number = u64::from(processes.get());
        let longest = Self::MAX_WINDOW.as_nanos() / self.window.as_nanos();
        let windows = u128::from(number.div_ceil(self.permits)).min(longest);
        let shared = Self {
            permits: (self.permits / number).max(1),
            window: self.window.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX)),
            burst: (self.burst / number).max(1),
        };
        shared.recovering()
    }

    /// Returns the fastest rate that is not above this one and takes a whole number of ticks a
    /// permit: for rates of less than a thousand, which [`Meter::new`] may refuse.
    pub(crate) fn in_whole_ticks(self) -> Self {
        let ticks = u128::from(Meter::TICKS_PER_NANO) * self.window.as_nanos();
        let ticks = ticks.div_ceil(u128::from(self.permits));
        // A millisecond a tick, and as many permits as a millisecond has ticks.
        let window = Duration::from_millis(u64::try_from(ticks).unwrap_or(u64::MAX));
        let permits = 1_000_000 * Meter::TICKS_PER_NANO;
        Self { permits, window: window.min(Self::MAX_WINDOW), ..self }.recovering()
    }

    /// Lowers the burst to what recovers in time: the rate may have been rounded down by more.
    fn recovering(self) -> Self {
        let most = u128::from(self.permits) * Self::MAX_RECOVERY.as_nanos();
        let most = u64::try_from(most / self.window.as_nanos()).unwrap_or(u64::MAX);
        Self { burst: self.burst.min(most), ..self }
    }
}
