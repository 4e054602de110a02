//! What an algorithm's functions are to a script, in Rust: each twin does what its script's functions
//! do, so that tests can hold the two equal.

use std::time::Duration;

use limiter_core::{Cost, Timestamp};

/// The functions of an algorithm with one quota, and the state that they are called with.
pub(crate) trait Twin {
    /// Takes up a state as it was found `now`. Returns whether it can't stay as it is.
    fn read(&mut self, text: Option<&[u8]>, now: i128, latest: i128) -> bool;

    /// Returns how long a cost waits, `None` for ever.
    fn wait(&mut self, cost: i128, from: i128) -> Option<i128>;

    fn charge(&mut self, cost: i128, at: i128);

    fn owe(&mut self, cost: i128, at: i128);

    /// Returns whether other charges have moved.
    fn refund(&mut self, refund: &Refund) -> bool;

    /// Returns the text, and until when it counts.
    fn write(&self) -> (Vec<u8>, i128);

    /// Returns how many bytes of a text are the state that it begins with.
    fn length(&self, text: &[u8]) -> usize;

    fn numbers(&self) -> Vec<i128>;
}

/// What is given back, of which charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refund {
    pub(crate) permits: i128,
    pub(crate) cost: i128,
    pub(crate) at: i128,
    pub(crate) has_moved: bool,
    pub(crate) mark: i128,
    pub(crate) mark_rem: i128,
}

/// Returns the numbers of a text of so many doubles; `None` unless all are whole and in reach.
pub(crate) fn doubles<const N: usize>(text: &[u8]) -> Option<[i128; N]> {
    let (numbers, rest) = text.as_chunks::<8>();
    let whole = |bytes: &[u8; 8]| {
        let number = f64::from_le_bytes(*bytes);
        let is_whole = number >= 0.0 && number <= (1_u64 << 53) as f64 && number % 1.0 == 0.0;
        is_whole.then(|| format!("{number}").parse().ok())?
    };
    let numbers: Vec<_> = numbers.iter().map(whole).collect::<Option<_>>()?;
    numbers.try_into().ok().filter(|_| rest.is_empty())
}

/// Returns numbers as scripts write them.
pub(crate) fn from_doubles(numbers: &[i128]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}

/// Returns the number that digits are, the largest where they are too many; `None` if they are none.
pub(crate) fn number(digits: &str) -> Option<i128> {
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().unwrap_or(i128::MAX))
}

/// Returns the numbers before and in the last `places` of a text of digits.
pub(crate) fn split_digits(text: &str, places: usize) -> Option<(i128, i128)> {
    let at = text.len().checked_sub(places)?;
    let (before, last) = text.split_at_checked(at)?;
    Some((number(before)?, number(last)?))
}

/// Returns the numbers on both sides of a colon.
pub(crate) fn split_colon(text: &str) -> Option<(i128, i128)> {
    let (before, behind) = text.split_once(':')?;
    Some((number(before)?, number(behind)?))
}

/// Returns a time of the script, for an algorithm of `limiter-core`.
pub(crate) fn moment(at: i128) -> Timestamp {
    Timestamp::from_nanos(u64::try_from(at * 1_000).expect("a time within centuries"))
}

/// Returns a duration as the script counts it.
pub(crate) fn wait_of(duration: Duration) -> i128 {
    i128::try_from(duration.as_micros()).expect("a time within centuries")
}

/// Returns a cost of the script.
pub(crate) fn cost_of(cost: i128) -> Cost {
    let cost = u64::try_from(cost).expect("no more than fits");
    Cost::new(cost).expect("a cost is not zero")
}
