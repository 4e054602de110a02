//! The arithmetic that GCRA shares with the token bucket and the leaky bucket: a debt that drains.

use alloc::format;
use core::time::Duration;

use crate::{Cost, Decision, Error, ErrorKind, Quota, Usage};

/// A quota in ticks: each permit adds an increment to a key's debt, and time drains the debt.
///
/// A cost is admitted if the debt stays within the capacity, which is the burst times the
/// increment. Debts, increments and capacities are whole ticks of the store's [`Resolution`], so
/// nothing drifts. Where a quota's interval is not a whole number of ticks, the increment is
/// rounded up: the rate is lower than the quota's by less than 0.1 %, and never higher.
///
/// The state of a key, and how it becomes a debt at a moment, is the business of an
/// [`Algorithm`](super::Algorithm) such as [`Gcra`](super::Gcra); stores outside this crate that
/// get a debt back from a script turn it into a [`Decision`] here.
///
/// ```
/// use limiter_core::{Cost, Quota, algorithm::{Meter, Resolution}};
///
/// let meter = Meter::new(&Quota::per_second(3)?.with_burst(2)?, Resolution::Micros)?;
/// // Three permits in 1,000,000 us: ticks of a third of a microsecond hold that exactly.
/// assert_eq!((meter.ticks_per_unit(), meter.price(Cost::ONE)), (3, Some(1_000_000)));
/// assert_eq!(meter.charge(1_000_000, Cost::ONE), Some(2_000_000));
/// assert_eq!(meter.charge(1_000_001, Cost::ONE), None);
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    burst: u64,
    /// Ticks that one permit adds.
    increment: u64,
    /// `burst * increment`.
    capacity: u64,
    ticks_per_unit: u64,
    nanos_per_unit: u64,
}

/// How finely a store tells time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resolution {
    /// Nanoseconds of sixteen ticks each: a time in ticks is one 64-bit word for 27 years.
    Nanos,
    /// Microseconds of as many ticks as make the increment whole, and every number below 2^53,
    /// for stores that count in doubles.
    Micros,
}

impl Meter {
    /// The largest capacity at nanoseconds: a quarter of the word's range, so that a time and a
    /// debt together stay within it.
    pub(crate) const MAX_CAPACITY_NANOS: u64 = 1 << 62;
    pub(crate) const TICKS_PER_NANO: u64 = 16;
    /// Half of what a double counts exactly, so that a debt and a charge together stay within it.
    const MAX_CAPACITY_MICROS: u64 = 1 << 52;

    /// Returns the meter of `quota` at `resolution`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota's interval can't be told within 0.1 % in ticks.
    /// At nanoseconds every rate up to 16,000,000 a second can; faster ones if the interval is a
    /// whole number of sixteenths of a nanosecond. At microseconds every rate can whose burst and
    /// number of permits are not both very large.
    pub fn new(quota: &Quota, resolution: Resolution) -> Result<Self, Error> {
        let (nanos_per_unit, most) = match resolution {
            Resolution::Nanos => (1, Self::MAX_CAPACITY_NANOS),
            Resolution::Micros => (1_000, Self::MAX_CAPACITY_MICROS),
        };
        let period = quota.window().as_nanos() / u128::from(nanos_per_unit);
        let permits = u128::from(quota.permits());
        let common = gcd(period, permits);
        let (period, permits) = (period / common, permits / common);
        let burst = u128::from(quota.burst());

        let ticks_per_unit = match resolution {
            Resolution::Nanos => u128::from(Self::TICKS_PER_NANO),
            // `permits` ticks are exact; fewer where the capacity would grow too large.
            Resolution::Micros => {
                let room = u128::from(most).saturating_mul(permits) / (burst * period);
                permits.min(room).min(u128::from(most)).max(1)
            }
        };
        let increment = (period * ticks_per_unit).div_ceil(permits);
        let excess = increment * permits - period * ticks_per_unit;
        let capacity = burst * increment;
        if excess * 1_000 >= period * ticks_per_unit || capacity > u128::from(most) {
            let unit = match resolution {
                Resolution::Nanos => "nanoseconds",
                Resolution::Micros => "microseconds",
            };
            return Err(Error::new(
                ErrorKind::InvalidQuota,
                format!(
                    "a quota of {quota}: its rate can't be held within 0.1 % in {unit}; \
                     allow fewer permits, or a rounder number of them"
                ),
            ));
        }
        // All three are at most `most` by now.
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Ok(Self {
            burst: quota.burst(),
            increment: whole(increment),
            capacity: whole(capacity),
            ticks_per_unit: whole(ticks_per_unit),
            nanos_per_unit,
        })
    }

    /// Returns the largest debt, in ticks, that the quota allows.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the ticks of one nanosecond or microsecond, whichever the resolution counts in.
    #[must_use]
    pub const fn ticks_per_unit(&self) -> u64 {
        self.ticks_per_unit
    }

    /// Returns the ticks that `cost` adds to a debt, or `None` if it can never fit.
    #[must_use]
    pub const fn price(&self, cost: Cost) -> Option<u64> {
        if cost.get() <= self.burst { Some(cost.get() * self.increment) } else { None }
    }

    /// Returns the debt after `cost` is charged to `debt`, or `None` if that is refused.
    #[must_use]
    pub const fn charge(&self, debt: u64, cost: Cost) -> Option<u64> {
        let Some(price) = self.price(cost) else {
            return None;
        };
        let debt = debt.saturating_add(price);
        if debt <= self.capacity { Some(debt) } else { None }
    }

    /// Returns the usage at `debt`.
    #[must_use]
    pub const fn usage(&self, debt: u64) -> Usage {
        Usage::new(self.burst, self.remaining(debt), self.drain_time(debt))
    }

    /// Returns how long `debt` has to drain until `cost` fits, or `None` if it can never fit.
    #[must_use]
    pub const fn wait(&self, debt: u64, cost: Cost) -> Option<Duration> {
        match self.price(cost) {
            Some(price) => {
                let excess = debt.saturating_add(price).saturating_sub(self.capacity);
                Some(self.drain_time(excess))
            }
            None => None,
        }
    }

    /// Returns the admission that left `debt`.
    pub const fn admitted(&self, debt: u64) -> Decision {
        Decision::admitted(self.usage(debt))
    }

    /// Returns the refusal of `cost` at `debt`.
    pub const fn refused(&self, debt: u64, cost: Cost) -> Decision {
        Decision::refused(self.usage(debt), self.wait(debt, cost))
    }

    /// Returns the ticks that one permit adds.
    pub(super) const fn increment(&self) -> u64 {
        self.increment
    }

    const fn remaining(&self, debt: u64) -> u64 {
        self.capacity.saturating_sub(debt) / self.increment
    }

    /// Rounds up: whoever waits this long finds the ticks drained.
    pub(super) const fn drain_time(&self, ticks: u64) -> Duration {
        let units = ticks.div_ceil(self.ticks_per_unit);
        Duration::from_nanos(units.saturating_mul(self.nanos_per_unit))
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
