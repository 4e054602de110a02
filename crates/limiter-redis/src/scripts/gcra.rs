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
    /// The ticks of a permit.
    increment: i64,
    longest_delay: Duration,
}

impl Gcra {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "gcra",
        quota: &["increment", "capacity", "scale"],
        text: include_str!("gcra.lua"),
    };

    pub(crate) fn new(quota: &Quota) -> Result<Self, Error> {
        let meter = Meter::new(quota, Resolution::Micros)?;
        let increment = meter.price(Cost::ONE).map_or(0, signed);
        // A debt that is promised for later is still exact in a double.
        let longest_delay = Duration::from_micros((1 << 52) / meter.ticks_per_unit());
        Ok(Self { meter, increment, longest_delay })
    }

    /// Returns GCRA for which no more than `depth` permits may wait.
    pub(super) fn queue(quota: &Quota, depth: u64) -> Result<Self, Error> {
        let gcra = Self::new(quota)?;
        let ticks = u128::from(depth) * u128::from(gcra.increment.unsigned_abs());
        let longest = ticks.div_ceil(u128::from(gcra.meter.ticks_per_unit()));
        let longest = Duration::from_micros(u64::try_from(longest).unwrap_or(u64::MAX));
        Ok(Self { longest_delay: gcra.longest_delay.min(longest), ..gcra })
    }

    pub(super) fn quota(&self) -> [i64; 3] {
        let (capacity, scale) = (self.meter.capacity(), self.meter.ticks_per_unit());
        [self.increment, signed(capacity), signed(scale)]
    }

    pub(super) const fn short(&self) -> &'static str {
        if self.meter.ticks_per_unit() == 1 {
            include_str!("gcra_check.lua")
        } else {
            include_str!("gcra_remainder_check.lua")
        }
    }

    pub(super) const fn usage(&self, [debt, ..]: [i64; 3]) -> Usage {
        self.meter.usage(count(debt))
    }

    pub(super) const fn wait(&self, [debt, ..]: [i64; 3], cost: Cost) -> Option<Duration> {
        self.meter.wait(count(debt), cost)
    }

    pub(super) const fn mark(&self, [debt, ..]: [i64; 3], now: i64) -> [i64; 2] {
        let scale = self.meter.ticks_per_unit().cast_signed();
        [now.saturating_add(debt / scale), debt % scale]
    }

    pub(super) const fn longest_delay(&self) -> Duration {
        self.longest_delay
    }
}

/// The twin: what `gcra.lua` does, in its words.
#[cfg(test)]
mod twin {
    use crate::scripts::twin::{Refund, Twin, doubles, from_doubles};

    /// A quota, and a debt at `now`.
    pub(super) struct Gcra {
        increment: i128,
        capacity: i128,
        scale: i128,
        now: i128,
        debt: i128,
    }

    /// A state as it is written: when it is drained, and by which quota.
    struct Found {
        at: i128,
        rem: i128,
        increment: i128,
        scale: i128,
    }

    impl super::Gcra {
        pub(crate) fn twin(&self) -> Box<dyn Twin> {
            let [increment, capacity, scale] = self.quota().map(i128::from);
            Box::new(Gcra { increment, capacity, scale, now: 0, debt: 0 })
        }
    }

    impl Found {
        fn parse(text: &[u8]) -> Option<Self> {
            if text.len() == 16 {
                let [at, increment] = doubles(text)?;
                return Some(Self { at, increment, rem: 0, scale: 1 });
            }
            let mut text = text.to_vec();
            // The moment is negative.
            *text.get_mut(7)? ^= 0x80;
            let [at, increment, rem, scale] = doubles(&text)?;
            (scale > 0).then_some(Self { at, rem, increment, scale })
        }
    }

    /// Returns a * b / c rounded up.
    fn scaled(a: i128, b: i128, c: i128) -> i128 {
        (a * b + c - 1) / c
    }

    impl Gcra {
        fn debt_at(&self, at: i128) -> i128 {
            let drained = (at - self.now) * self.scale;
            (self.debt - drained).max(0)
        }
    }

    impl Twin for Gcra {
        fn read(&mut self, text: Option<&[u8]>, now: i128, latest: i128) -> bool {
            (self.now, self.debt) = (now, 0);
            let Some(text) = text else {
                return false;
            };
            let most = (self.capacity + (latest - now) * self.scale).min(1 << 53);
            let Some(old) = Found::parse(text) else {
                self.debt = most;
                return true;
            };
            if old.at < now {
                return false;
            }
            let debt = (old.at - now).saturating_mul(old.scale).saturating_add(old.rem);
            self.debt = most.min(debt);
            if (old.increment, old.scale) == (self.increment, self.scale) {
                return debt > most;
            }
            // Another quota's: the permits that were taken stay taken.
            let is_known = debt < 1 << 51 && (1..1 << 51).contains(&old.increment);
            self.debt = most;
            if is_known && debt * self.increment < most * old.increment {
                self.debt = scaled(debt, self.increment, old.increment).min(most);
            }
            true
        }

        fn wait(&mut self, cost: i128, from: i128) -> Option<i128> {
            let price = cost * self.increment;
            if price > self.capacity {
                return None;
            }
            let excess = self.debt_at(from) - (self.capacity - price);
            Some(scaled(excess.max(0), 1, self.scale))
        }

        fn charge(&mut self, cost: i128, at: i128) {
            let charged = self.debt_at(at) + cost * self.increment;
            self.debt = (at - self.now) * self.scale + charged.min(self.capacity);
        }

        fn owe(&mut self, cost: i128, _at: i128) {
            let most = self.debt.max(self.capacity);
            self.debt = (self.debt + cost * self.increment).min(most);
        }

        fn refund(&mut self, refund: &Refund) -> bool {
            let taken = refund.permits * self.increment;
            let mut ends = (refund.mark - self.now) * self.scale + refund.mark_rem;
            if self.debt == ends && !refund.has_moved {
                self.debt = (self.debt - taken).max(0);
                return false;
            }
            if self.debt > self.capacity {
                return false;
            }
            if refund.has_moved {
                ends = (refund.at - self.now) * self.scale + refund.cost * self.increment;
            }
            let undrained = taken.min(ends).min(self.debt).max(0);
            self.debt -= undrained;
            undrained > 0
        }

        fn write(&self) -> (Vec<u8>, i128) {
            let Self { increment, scale, .. } = *self;
            let rem = self.debt % scale;
            let drained = self.now + (self.debt - rem) / scale;
            if scale == 1 {
                return (from_doubles(&[drained, increment]), drained);
            }
            (from_doubles(&[-drained, increment, rem, scale]), drained + 1)
        }

        fn length(&self, text: &[u8]) -> usize {
            let first = text.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
            if first < 0.0 { 32 } else { 16 }
        }

        fn numbers(&self) -> Vec<i128> {
            vec![self.debt]
        }
    }
}
