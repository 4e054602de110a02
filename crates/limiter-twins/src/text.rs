//! Numbers in texts.

/// The digits of a time in microseconds of Unix time.
const TIME_DIGITS: usize = 16;

/// Returns the number that digits are, the largest one if they are too many; `None` if it is anything else.
pub(crate) fn digits(word: &str) -> Option<i64> {
    let are_digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| word.parse().unwrap_or(i64::MAX))
}

/// Returns a time in microseconds.
pub(crate) fn time(word: &str) -> Option<i64> {
    digits(word).filter(|_| word.len() == TIME_DIGITS)
}

/// Returns a whole number as scripts write it: without leading zeros, and one that they count exactly.
fn exact(word: &str) -> Option<i64> {
    let number = digits(word).filter(|number| number.to_string() == word)?;
    // Their numbers have 53 bits.
    let lost = (number.unsigned_abs().leading_zeros() + number.trailing_zeros()) < 64 - 53;
    (!lost).then_some(number)
}

/// Returns the numbers of a text as scripts write them.
pub(crate) fn exact_numbers(text: &str) -> Option<Vec<i64>> {
    text.split(' ').map(exact).collect()
}

/// Returns the numbers of a text with a space between any two.
pub(crate) fn numbers(text: &str) -> Option<Vec<i64>> {
    text.split(' ').map(digits).collect()
}

/// Returns numbers with a space between any two.
pub(crate) fn joined(numbers: impl IntoIterator<Item = i64>) -> String {
    let words: Vec<_> = numbers.into_iter().map(|number| number.to_string()).collect();
    words.join(" ")
}

/// Returns after how many milliseconds a value expires that matters for so many microseconds.
pub(crate) const fn expiry(micros: i64) -> i64 {
    micros.saturating_add(999).div_euclid(1_000) + 1
}
