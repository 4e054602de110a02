//! GCRA: what `gcra.lua` is given, what its number means, and its twin.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Usage,
    algorithm::{Meter, Resolution},
};

use super::{
    Functions,
    single::{count, signed},
};

/// A debt that drains, at the server's resolution: microseconds, with an exact remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    meter: Meter,
    /// The ticks of a permit, and they again as `mantissa * 10^exponent`.
    increment: i64,
    mantissa: i64,
    exponent: u32,
    longest_delay: Duration,
}

impl Gcra {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "gcra",
        quota: &["increment", "capacity", "scale", "mantissa", "exponent"],
        text: include_str!("gcra.lua"),
    };

    pub(crate) fn new(quota: &Quota) -> Result<Self, Error> {
        let meter = Meter::new(quota, Resolution::Micros)?;
        let increment = meter.price(Cost::ONE).map_or(0, signed);
        let (mut mantissa, mut exponent) = (increment, 0);
        while mantissa >= 1_000 && mantissa % 10 == 0 && exponent < 9 {
            (mantissa, exponent) = (mantissa / 10, exponent + 1);
        }
        // A debt that is promised for later is still exact in a double.
        let longest_delay = Duration::from_micros((1 << 52) / meter.ticks_per_unit());
        Ok(Self { meter, increment, mantissa, exponent, longest_delay })
    }

    /// Returns GCRA for which no more than `depth` permits may wait.
    pub(super) fn queue(quota: &Quota, depth: u64) -> Result<Self, Error> {
        let gcra = Self::new(quota)?;
        let ticks = u128::from(depth) * u128::from(gcra.increment.unsigned_abs());
        let longest = ticks.div_ceil(u128::from(gcra.meter.ticks_per_unit()));
        let longest = Duration::from_micros(u64::try_from(longest).unwrap_or(u64::MAX));
        Ok(Self { longest_delay: gcra.longest_delay.min(longest), ..gcra })
    }

    pub(super) fn quota(&self) -> [i64; 5] {
        let (capacity, scale) = (self.meter.capacity(), self.meter.ticks_per_unit());
        [self.increment, signed(capacity), signed(scale), self.mantissa, self.exponent.into()]
    }

    /// Returns the arguments of the short way, for a quota that can go it.
    pub(super) fn short(&self, cost: Cost) -> Option<[i64; 3]> {
        let is_short = self.meter.ticks_per_unit() == 1 && (100..1_000).contains(&self.mantissa);
        let capacity = self.meter.capacity();
        // A cost that can never fit still has to be refused with the key's remaining permits.
        let price = self.meter.price(cost).unwrap_or(capacity + self.increment.unsigned_abs());
        let digits = self.mantissa * 10 + i64::from(self.exponent);
        is_short.then(|| [signed(price), signed(capacity) - signed(price), digits])
    }

    pub(super) const fn usage(&self, [debt, ..]: [i64; 3]) -> Usage {
        self.meter.usage(count(debt))
    }

    pub(super) const fn wait(&self, [debt, ..]: [i64; 3], cost: Cost) -> Option<Duration> {
        self.meter.wait(count(debt), cost)
    }

    pub(super) const fn mark(&self, [debt, ..]: [i64; 3], now: i64) -> [i64; 2] {
        let scale = self.meter.ticks_per_unit().cast_signed();
        [now + debt / scale, debt % scale]
    }

    pub(super) const fn longest_delay(&self) -> Duration {
        self.longest_delay
    }
}
