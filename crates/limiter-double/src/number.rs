//! Numbers as servers read and write them.

use crate::version::Version;

/// Reads a whole number in its canonical form.
pub(crate) fn integer(word: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

/// Reads a score: an infinite one by its word alone.
pub(crate) fn score(word: &[u8]) -> Option<f64> {
    let is_word = word.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    float(word).filter(|number| number.is_finite() || is_word)
}

/// Reads the least or the most score of a range, where no text stands for 0.
pub(crate) fn bound(word: &[u8]) -> Option<f64> {
    if word.is_empty() { Some(0.0) } else { float(word) }
}

/// Reads a number, which is not NaN.
fn float(word: &[u8]) -> Option<f64> {
    str::from_utf8(word).ok()?.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// Returns a number of a script, or a score.
pub(crate) fn text(number: f64, version: Version) -> String {
    if version < Version::Redis8_2 { all_digits(number) } else { fewest_digits(number) }
}

/// Returns a number by the fewest digits that it can be read from, as servers since Redis 7.2 do.
fn fewest_digits(number: f64) -> String {
    if number.is_infinite() {
        return all_digits(number);
    }
    if number == number.trunc() && number.abs() < 4.6e18 {
        return truncated(number).to_string();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    let count = digits.bytes().filter(u8::is_ascii_digit).count();
    let count = i32::try_from(count).unwrap_or(0);
    let last = exponent - count + 1;
    let is_plain = if last >= 0 { exponent < count + 7 } else { last > -7 || exponent.abs() < 4 };
    if is_plain {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{}", exponent.abs())
}

/// Returns a number as C's `%.17g` does: a whole one without an exponent, up to 17 digits.
fn all_digits(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == number.trunc() && number.abs() < 1e17 {
        return format!("{number:.0}");
    }
    let scientific = format!("{number:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        let fixed = format!("{number:.decimals$}");
        return fixed.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Returns the integer of a number of Lua, cut as C does where the result is defined.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked; other numbers have the least one, as on x86-64"
)]
pub(crate) fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
