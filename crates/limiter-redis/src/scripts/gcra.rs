//! GCRA: what `gcra.lua` is given, what its number means, and its twin.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Usage,
    algorithm::{Meter, Resolution},
};

use super::{
    Functions, Part, Short,
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

    pub(super) const fn short(&self) -> Short {
        if self.short_arguments().is_some() {
            Short::WithOwnArguments(include_str!("gcra_check.lua"))
        } else {
            Short::Of(include_str!("gcra_remainder_check.lua"))
        }
    }

    /// Returns the arguments of the shortest way, for a quota that can go it: increment, capacity,
    /// and the increment in four digits.
    pub(super) const fn short_arguments(&self) -> Option<[i64; 3]> {
        let Self { increment, mantissa, exponent, .. } = *self;
        if self.meter.ticks_per_unit() == 1 && mantissa >= 100 && mantissa < 1_000 {
            let capacity = self.meter.capacity().cast_signed();
            Some([increment, capacity, mantissa * 10 + exponent as i64])
        } else {
            None
        }
    }

    /// Returns what the limit is in the short way of several, and its arguments there.
    pub(super) fn part(&self) -> Option<(Part, Vec<i64>)> {
        let Self { increment, mantissa, exponent, .. } = *self;
        if self.meter.ticks_per_unit() > 1 || mantissa > 999 {
            let part = Part {
                text: include_str!("gcra_remainder_several.lua"),
                format: "%d:%d:%de%d:%d",
                written: "now + drains_in_N, rem_N, mantissa_N, exponent_N, scale_N",
                charged: "charged_N",
                found: "-debt_N",
            };
            return Some((part, self.quota().to_vec()));
        }
        let burst = signed(self.meter.capacity()) / increment;
        let quota = burst.checked_mul(10_000)? + mantissa * 10 + i64::from(exponent);
        let part = Part {
            text: include_str!("gcra_several.lua"),
            format: "%d%s",
            written: "now + charged_N, digits_N",
            charged: "charged_N",
            found: "-debt_N",
        };
        // A double counts no further.
        (quota < 1 << 53).then(|| (part, vec![quota]))
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
    use crate::scripts::twin::{Refund, Twin, number, split_digits};

    /// A quota, and a debt at `now`.
    pub(super) struct Gcra {
        increment: i128,
        capacity: i128,
        scale: i128,
        mantissa: i128,
        exponent: i128,
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
            let [increment, capacity, scale, mantissa, exponent] = self.quota().map(i128::from);
            let (now, debt) = (0, 0);
            Box::new(Gcra { increment, capacity, scale, mantissa, exponent, now, debt })
        }
    }

    impl Found {
        fn parse(text: &str) -> Option<Self> {
            if let Some((at, digits)) = split_digits(text, 4) {
                let increment = times_ten_to(digits / 10, digits % 10);
                return Some(Self { at, rem: 0, increment, scale: 1 });
            }
            let mut parts = text.split(':');
            let mut next = || parts.next();
            let (at, rem) = (number(next()?)?, number(next()?)?);
            let (mantissa, exponent) = next()?.split_once('e')?;
            let exponent = number(exponent).filter(|_| exponent.len() == 1)?;
            let scale = next()?;
            let scale = number(scale).filter(|_| !scale.starts_with('0'))?;
            if next().is_some() {
                return None;
            }
            let increment = times_ten_to(number(mantissa)?, exponent);
            Some(Self { at, rem, increment, scale })
        }
    }

    fn times_ten_to(mantissa: i128, exponent: i128) -> i128 {
        (0..exponent).fold(mantissa, |product, _| product.saturating_mul(10))
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
        fn read(&mut self, text: Option<&str>, now: i128, latest: i128) -> bool {
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

        fn write(&self) -> (String, i128) {
            let Self { scale, mantissa, exponent, .. } = self;
            let rem = self.debt % scale;
            let drained = self.now + (self.debt - rem) / scale;
            if *scale == 1 && *mantissa <= 999 {
                return (format!("{drained}{mantissa:03}{exponent}"), drained);
            }
            (format!("{drained}:{rem}:{mantissa}e{exponent}:{scale}"), drained + 1)
        }

        fn numbers(&self) -> Vec<i128> {
            vec![self.debt]
        }
    }
}
