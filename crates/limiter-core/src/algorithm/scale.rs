//! How GCRA counts time: in ticks that divide one quota's interval.

use core::time::Duration;

use super::{LAST, nanos, whole};
use crate::{Quota, Timestamp};

/// The time unit of the debts that one quota writes, and how large they can be.
///
/// A tick is the interval between two permits, divided by a whole number so that a tick is at least
/// 64 ns: no interval is rounded, and 56 bits count the ticks of 146 years. Times are rounded down
/// to ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scale {
    /// Ticks a nanosecond, as a fraction of 2^64, rounded up: over 146 years that makes time run
    /// ahead by less than a quarter of a tick, and exact multiples of the interval stay exact.
    ticks_per_nano: u64,
    /// Nanoseconds a tick, as a fraction of 2^56, rounded down: the inverse, so that no check divides
    /// 128 bits.
    nanos_per_tick: u64,
    /// The ticks that one permit adds to a debt.
    pub(crate) increment: u64,
    /// The largest debt, in ticks, that the quota and its horizon can leave.
    pub(crate) reach: u64,
}

impl Scale {
    /// The shortest tick, in nanoseconds.
    const SHORTEST_TICK: u128 = 64;

    /// Returns the scale of `quota`, whose debts may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration) -> Self {
        let (window, permits) = (quota.window().as_nanos(), u128::from(quota.permits()));
        // A quota's interval is at least 200 ns.
        let increment = window / (permits * Self::SHORTEST_TICK);
        let ticks_per_nano = ((increment * permits) << 64).div_ceil(window);
        let mut scale = Self {
            ticks_per_nano: whole(ticks_per_nano),
            nanos_per_tick: whole((1 << 120) / ticks_per_nano),
            increment: whole(increment),
            reach: 0,
        };
        // One tick more, because a delay in nanoseconds can begin and end within a tick.
        let horizon = scale.ticks(whole(horizon.as_nanos()).min(LAST)) + 2;
        scale.reach = quota.burst() * scale.increment + horizon;
        scale
    }

    /// Returns `nanos` in ticks, rounded down.
    #[inline]
    pub(crate) const fn ticks(&self, nanos: u64) -> u64 {
        ((nanos as u128 * self.ticks_per_nano as u128) >> 64) as u64
    }

    /// Returns `nanos` in ticks, rounded up.
    #[cold]
    pub(crate) fn ticks_rounded_up(&self, nanos: u64) -> u64 {
        let ticks = self.ticks(nanos);
        ticks + u64::from(self.nanos_at(ticks) < nanos)
    }

    /// Returns the first nanosecond at which `ticks` have passed.
    #[inline]
    pub(crate) const fn nanos_at(&self, ticks: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "56 bits of ticks are 62 of nanoseconds"
        )]
        let mut nanos = ((ticks as u128 * self.nanos_per_tick as u128) >> 56) as u64;
        // Rounding down twice falls short by less than two.
        while self.ticks(nanos) < ticks && self.ticks_per_nano > 0 {
            nanos += 1;
        }
        nanos
    }

    /// Returns how much time is left from `now` until `ticks` have passed.
    #[inline]
    pub(crate) const fn until(&self, ticks: u64, now: u64) -> Duration {
        Duration::from_nanos(self.nanos_at(ticks).saturating_sub(now))
    }

    /// Returns the parts of which the scale consists.
    pub(crate) const fn parts(&self) -> [u64; 4] {
        [self.ticks_per_nano, self.nanos_per_tick, self.increment, self.reach]
    }

    /// Returns the scale of these parts.
    pub(crate) const fn of_parts(parts: [u64; 4]) -> Self {
        let [ticks_per_nano, nanos_per_tick, increment, reach] = parts;
        Self { ticks_per_nano, nanos_per_tick, increment, reach }
    }

    /// Returns `at` in ticks, rounded down.
    #[inline]
    pub(crate) const fn ticks_at(&self, at: Timestamp) -> u64 {
        self.ticks(nanos(at))
    }
}
