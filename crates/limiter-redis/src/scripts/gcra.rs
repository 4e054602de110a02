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

/// What is above the capacity of a quota that has a text of digits: three years.
const MAX_IN_DIGITS: u64 = 100_000_000_000_000;

impl Gcra {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "gcra",
        quota: &["increment", "capacity", "scale", "digits"],
        form: "dddc3",
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
        let number = self.number().filter(|_| is_alone).unwrap_or_default();
        let numbers = doubles(&[self.increment, signed(capacity), signed(scale)]);
        [numbers, format!("{number:03}").into()].concat()
    }

    /// Returns the number of the increment: for quotas that have a text of digits, see `gcra.lua`.
    fn number(&self) -> Option<u32> {
        let mut rest = self.increment;
        let [twos, threes, fives] = [(2, 13), (3, 3), (5, 8)].map(|(prime, most)| {
            let mut exponent = 0;
            while exponent < most && rest % prime == 0 {
                (rest, exponent) = (rest / prime, exponent + 1);
            }
            exponent
        });
        let divides_a_day = rest == 1 && twos > 0;
        // So that a moment in digits stays in reach.
        let fits = self.meter.ticks_per_unit() == 1 && self.meter.capacity() < MAX_IN_DIGITS;
        (divides_a_day && fits).then(|| 10 + ((twos - 1) * 4 + threes) * 9 + fives)
    }

    pub(super) fn short(&self) -> &'static str {
        if self.meter.ticks_per_unit() == 1 {
            if self.number().is_some() {
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
    use crate::scripts::{
        EPOCH,
        twin::{Refund, Twin, doubles, from_doubles, split_digits},
    };

    /// What a moment in digits is later than one of the script's.
    const IN_DIGITS: i128 = EPOCH as i128 + 2_000;

    /// A quota, and a debt at `now`.
    pub(super) struct Gcra {
        increment: i128,
        capacity: i128,
        scale: i128,
        number: Option<u32>,
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
            let number = self.number().filter(|_| is_alone);
            Box::new(Gcra {
                increment: self.increment.into(),
                capacity,
                scale,
                number,
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
                    let (moment, number) = split_digits(str::from_utf8(text).ok()?, 3)?;
                    let number = u32::try_from(number - 10).ok().filter(|number| *number < 468)?;
                    at = Some(moment - IN_DIGITS).filter(|at| *at >= 0)?;
                    increment = 2_i128.pow(number / 36 + 1)
                        * 3_i128.pow(number / 9 % 4)
                        * 5_i128.pow(number % 9);
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
            if let Some(number) = self.number.filter(|_| drained < 2_900_000_000_000_000) {
                let text = format!("{}{number:03}", drained + IN_DIGITS);
                return (text.into_bytes(), drained);
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
    use std::time::Duration;

    use limiter_core::Quota;
    use proptest::prelude::*;

    use super::Gcra;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// As the short way does, in a number that can't count all of the digits.
        #[test]
        fn a_moment_in_digits_is_read_by_dividing(
            at in 1_600_000_000_002_000..4_500_000_000_002_000_u64,
            number in prop_oneof![Just(10), 10..=477_u64, Just(477)],
        ) {
            let text = format!("{at}{number:03}");
            let moment = text.parse::<f64>().unwrap() / 1_000.0;
            prop_assert_eq!((moment - moment % 1.0).to_string(), at.to_string());
        }
    }

    fn number(micros: u64) -> Option<u32> {
        let (permits, millis) =
            if micros.is_multiple_of(1_000) { (1, micros / 1_000) } else { (1_000, micros) };
        let quota = Quota::per(permits, Duration::from_millis(millis)).unwrap();
        Gcra::new(&quota).unwrap().number()
    }

    #[test]
    fn each_even_increment_that_divides_a_day_has_a_number_of_its_own() {
        let exponents =
            (1..=13).flat_map(|a| (0..=3).flat_map(move |b| (0..=8).map(move |c| (a, b, c))));
        let increments = exponents.map(|(a, b, c)| 2_u64.pow(a) * 3_u64.pow(b) * 5_u64.pow(c));
        let numbers: Vec<_> = increments.map(|micros| number(micros).expect("a number")).collect();
        assert_eq!(numbers, (10..=477).collect::<Vec<_>>());
    }

    #[test]
    fn no_other_increment_has_a_number() {
        for micros in [1, 3, 5, 7, 14, 700_000, 1 << 14, 604_800_000_000] {
            assert_eq!(number(micros), None, "{micros}");
        }
        let with_a_remainder = Quota::per_hour(97).unwrap();
        assert_eq!(Gcra::new(&with_a_remainder).unwrap().number(), None);
        let far = Quota::per_day(1).unwrap().with_burst(1_200).unwrap();
        assert_eq!(Gcra::new(&far).unwrap().number(), None);
    }
}
