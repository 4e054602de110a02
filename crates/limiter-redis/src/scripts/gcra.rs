//! GCRA: the numbers that its scripts are given, and what their replies mean.

use std::time::Duration;

use limiter_core::{Algorithm, Limit, Usage};

use super::argument::MAX_EXACT;

/// A debt that drains, in ticks: microseconds, or their ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    /// The ticks of a permit.
    pub(super) increment: u64,
    pub(super) burst: u64,
    /// How far above the capacity a debt may be, in ticks: whole microseconds, as delays are.
    pub(super) horizon: u64,
    /// The ticks of a microsecond.
    pub(super) scale: u64,
    /// The ticks in which a burst recovers, rounded up once: of all quotas that share a state, the same time.
    pub(super) span: u64,
}

/// The ticks of a microsecond where the interval of a quota is not whole.
const FINE: u64 = 10_000;

impl Gcra {
    /// Returns the numbers of a limit.
    ///
    /// The interval is rounded up to a whole microsecond if that costs less than a thousandth of the
    /// rate, and otherwise to a ten-thousandth of one.
    pub(super) fn new(limit: &Limit) -> Self {
        let (quota, permits) = (limit.quota(), u128::from(limit.quota().permits()));
        let window = quota.window().as_micros();
        let at_scale = |scale: u64| {
            let increment = whole((window * u128::from(scale)).div_ceil(permits));
            let horizon = match limit.algorithm() {
                Algorithm::LeakyQueue { depth } => depth.saturating_mul(increment).div_ceil(scale),
                _ => whole(limit.horizon().as_nanos().div_ceil(1_000)),
            };
            let horizon = horizon.saturating_mul(scale);
            let burst = quota.burst();
            let exact = quota.window().as_nanos() * u128::from(burst) * u128::from(scale);
            let span = whole(exact.div_ceil(permits * 1_000));
            Self { increment, burst, horizon, scale, span }
        };
        let coarse = at_scale(1);
        let lost = u128::from(coarse.increment) * permits - window;
        let fine = at_scale(FINE);
        // Beyond ten days a finer scale could not be counted.
        if lost * 1_000 < window || fine.reach() >= MAX_EXACT { coarse } else { fine }
    }

    pub(super) const fn capacity(&self) -> u64 {
        self.burst.saturating_mul(self.increment)
    }

    /// Returns the largest debt of this quota.
    pub(super) const fn reach(&self) -> u64 {
        self.capacity().saturating_add(self.horizon)
    }

    /// Returns how far ahead permits may be promised.
    pub(super) const fn longest_delay(&self) -> Duration {
        Duration::from_micros(self.horizon.div_ceil(self.scale))
    }

    /// Returns the usage of a debt in these ticks.
    pub(super) const fn usage(&self, debt: u64) -> Usage {
        let remaining = self.burst.saturating_sub(debt.div_ceil(self.increment));
        Usage::new(self.burst, remaining, Duration::from_micros(debt.div_ceil(self.scale)))
    }

    /// Returns for how long a debt leaves no room for a cost, `None` for ever.
    pub(super) fn wait(&self, debt: u64, cost: u64) -> Option<Duration> {
        let room = self.burst.checked_sub(cost)?.saturating_mul(self.increment);
        Some(Duration::from_micros(debt.saturating_sub(room).div_ceil(self.scale)))
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
