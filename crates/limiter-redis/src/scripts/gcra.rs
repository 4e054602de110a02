//! GCRA: what `gcra.lua` is given, what its number means, and its twin.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Usage,
    algorithm::{Meter, Resolution},
};

use super::{
    Functions, Part,
    single::{count, doubles, signed, too_many},
};

/// A debt that drains, at the server's resolution: microseconds, with an exact remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    meter: Meter,
    /// The ticks of a permit.
    increment: i64,
    longest_delay: Duration,
}

/// The ticks of a microsecond are written in six bytes.
const MAX_SCALE: u64 = 1 << 48;

/// The largest capacity of a quota that has a text of digits: three years.
const MAX_IN_DIGITS: u64 = 100_000_000_000_000;

impl Gcra {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "gcra",
        quota: &["increment", "capacity", "scale", "digits"],
        form: "dddc4",
        text: include_str!("gcra.lua"),
    };

    pub(crate) fn new(quota: &Quota) -> Result<Self, Error> {
        let meter = Meter::new(quota, Resolution::Micros)?;
        let increment = meter.price(Cost::ONE).map_or(0, signed);
        // A debt that is promised for later is still exact in a double.
        if meter.ticks_per_unit() >= MAX_SCALE {
            return Err(too_many(quota, MAX_SCALE - 1));
        }
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

    /// Returns the quota as it is packed, for a limit that is alone at its key or not.
    pub(super) fn packed(&self, is_alone: bool) -> Vec<u8> {
        let (capacity, scale) = (self.meter.capacity(), self.meter.ticks_per_unit());
        let digits = if is_alone { self.digits() } else { None };
        let digits = format!("{:04}", digits.unwrap_or_default());
        [doubles(&[self.increment, signed(capacity), signed(scale)]), digits.into()].concat()
    }

    /// Returns the increment in four digits, of which the last is an exponent of ten: for quotas that
    /// have a text of digits, see `gcra.lua`.
    const fn digits(&self) -> Option<i64> {
        let (mut mantissa, mut exponent) = (self.increment, 0);
        while mantissa >= 1_000 && mantissa % 10 == 0 && exponent < 9 {
            (mantissa, exponent) = (mantissa / 10, exponent + 1);
        }
        // So that a moment in digits stays in reach, and what is behind it is not lost to rounding.
        let fits = self.meter.ticks_per_unit() == 1 && self.meter.capacity() < MAX_IN_DIGITS;
        if fits && mantissa >= 100 && mantissa < 800 {
            Some(mantissa * 10 + exponent)
        } else {
            None
        }
    }

    pub(super) const fn short(&self) -> &'static str {
        if self.meter.ticks_per_unit() == 1 {
            if self.digits().is_some() {
                include_str!("gcra_check.lua")
            } else {
                include_str!("gcra_double_check.lua")
            }
        } else {
            include_str!("gcra_remainder_check.lua")
        }
    }

    /// Returns what the limit is in the short way of several.
    pub(super) const fn part(&self) -> Part {
        let (charged, found) = ("charged_N", "-debt_N");
        if self.meter.ticks_per_unit() == 1 {
            let (form, state) = ("dd", "at_N, own_N");
            let (text, written) =
                (include_str!("gcra_several.lua"), "now + charged_N, increment_N");
            return Part { text, form, state, written, charged, found };
        }
        Part {
            text: include_str!("gcra_remainder_several.lua"),
            form: "ddI6I6",
            state: "at_N, own_N, found_N, ticks_N",
            written: "-now - drains_in_N, increment_N, rem_N, scale_N",
            charged,
            found,
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
    use crate::scripts::twin::{Refund, Twin, doubles, from_doubles, split_digits};

    /// A quota, and a debt at `now`.
    pub(super) struct Gcra {
        increment: i128,
        capacity: i128,
        scale: i128,
        digits: Option<i64>,
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
        pub(crate) fn twin(&self, is_alone: bool) -> Box<dyn Twin> {
            let (capacity, scale) =
                (self.meter.capacity().into(), self.meter.ticks_per_unit().into());
            let digits = self.digits().filter(|_| is_alone);
            Box::new(Gcra {
                increment: self.increment.into(),
                capacity,
                scale,
                digits,
                now: 0,
                debt: 0,
            })
        }
    }

    impl Found {
        fn parse(text: &[u8]) -> Option<Self> {
            let (at, increment, rem, scale);
            match text.len() {
                16 => ([at, increment], rem, scale) = (doubles(text)?, 0, 1),
                19 => {
                    let (before, last) = split_digits(str::from_utf8(text).ok()?, 4)?;
                    let exponent = u32::try_from(last % 10).ok()?;
                    (at, increment) = (before, last / 10 * 10_i128.pow(exponent));
                    (rem, scale) = (0, 1);
                }
                28 => {
                    let (numbers, rest) = text.split_at(16);
                    let mut numbers = numbers.to_vec();
                    // The moment is negative.
                    numbers[7] ^= 0x80;
                    [at, increment] = doubles(&numbers)?;
                    [rem, scale] = [0, 6].map(|from| {
                        let bytes = rest[from..from + 6].iter().rev();
                        bytes.fold(0, |number, byte| number << 8 | i128::from(*byte))
                    });
                }
                _ => return None,
            }
            (scale > 0).then_some(Self { at, increment, rem, scale })
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
            let in_reach = (100_000_000_000_000..900_000_000_000_000).contains(&drained);
            if let Some(digits) = self.digits.filter(|_| in_reach) {
                return (format!("{drained}{digits}").into_bytes(), drained);
            }
            if scale == 1 {
                return (from_doubles(&[drained, increment]), drained);
            }
            let six = |number: i128| number.to_le_bytes()[..6].to_vec();
            let numbers = from_doubles(&[-drained, increment]);
            ([numbers, six(rem), six(scale)].concat(), drained + 1)
        }

        fn length(&self, text: &[u8]) -> usize {
            if text.len() == 19 && text.iter().all(u8::is_ascii_digit) {
                return 19;
            }
            let first = text.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
            if first < 0.0 { 28 } else { 16 }
        }

        fn numbers(&self) -> Vec<i128> {
            vec![self.debt]
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// As the short way does, in a number that can't count all of the digits.
        #[test]
        fn a_moment_in_digits_is_read_by_dividing(
            at in 100_000_000_000_000..900_000_000_000_000_u64,
            digits in prop_oneof![Just(1_000), 1_000..=7_999_u64, Just(7_999)],
        ) {
            let text = format!("{at}{digits}");
            let moment = text.parse::<f64>().unwrap() / 10_000.0;
            prop_assert_eq!((moment - moment % 1.0).to_string(), at.to_string());
        }
    }
}
