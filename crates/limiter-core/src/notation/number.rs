//! Whole numbers and times as text.

use alloc::{format, string::String};
use core::time::Duration;

use crate::error::excerpt;

/// A unit of time: its name in printed texts, its other names, and its milliseconds.
type Unit = (&'static str, &'static [&'static str], u64);

const UNITS: [Unit; 5] = [
    ("d", &["day", "days"], 86_400_000),
    ("h", &["hour", "hours"], 3_600_000),
    ("min", &["m", "mins", "minute", "minutes"], 60_000),
    ("s", &["sec", "secs", "second", "seconds"], 1_000),
    ("ms", &[], 1),
];

/// Returns a number of digits with `_` between them, or the fault of `what`.
///
/// A number above `u64::MAX` is read as `u64::MAX`: no limit can use either, and its own error states
/// the largest value.
pub(super) fn number(what: &str, text: &str) -> Result<u64, String> {
    let is_digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    if text.split('_').all(is_digits) {
        return Ok(text.replace('_', "").parse().unwrap_or(u64::MAX));
    }
    let text = excerpt(text);
    Err(format!("{what} {text:?} is not a whole number; use digits, as in 100 or 1_000"))
}

/// Returns the time of a whole number, which may be left out if it is 1, and one unit; or the fault.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let unit = after.trim_start();
    let is_unit = |(name, others, _): &&Unit| *name == unit || others.contains(&unit);
    let Some((.., millis)) = UNITS.iter().find(is_unit) else {
        let text = excerpt(text);
        let remedy = "use a whole number and one of ms, s, min, h or d, as in 90s or 500ms";
        return Err(format!("{text:?} is not a time; {remedy}"));
    };
    let number = match text.strip_suffix(after) {
        None | Some("") => 1,
        Some(digits) => number("the time", digits)?,
    };
    Ok(Duration::from_millis(millis.saturating_mul(number)))
}

/// Returns a time of whole milliseconds in the largest unit that divides it.
pub(super) fn in_largest_unit(time: Duration) -> (u128, &'static str) {
    let millis = time.as_millis();
    let divides = |(.., unit): &Unit| millis.is_multiple_of(u128::from(*unit));
    let (name, _, unit) = UNITS.into_iter().find(divides).unwrap_or(("ms", &[], 1));
    (millis / u128::from(unit), name)
}
