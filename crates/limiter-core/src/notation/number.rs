//! Whole numbers and times as text.

use alloc::{format, string::String};
use core::time::Duration;

use crate::error::excerpt;

/// Returns a number of digits with `_` between them, or the fault of `what`.
///
/// A number above `u64::MAX` is read as `u64::MAX`: no limit can use either, and its own error states
/// the largest value.
pub(super) fn number(what: &str, text: &str) -> Result<u64, String> {
    let is_digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    if text.split('_').all(is_digits) {
        return Ok(text.replace('_', "").parse().unwrap_or(u64::MAX));
    }
    let fault = match text {
        "" => "is missing".into(),
        _ => format!("{:?} is not a whole number", excerpt(text)),
    };
    Err(format!("{what} {fault}; use digits, as in 100 or 1_000"))
}

/// Returns the time of a whole number, which may be left out if it is 1, and one unit; or the fault.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let number = text.strip_suffix(after).unwrap_or_default();
    let (unit, rest) = after.trim_start().split_once(' ').unwrap_or((after.trim_start(), ""));
    let millis: u64 = match unit {
        "ms" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "" => return Err("the unit of time is missing; use ms, s, min, h or d".into()),
        _ if unit.chars().all(char::is_alphabetic) => {
            let unit = excerpt(unit);
            return Err(format!("unknown unit of time {unit:?}; use ms, s, min, h or d"));
        }
        _ => {
            let text = excerpt(text);
            return Err(format!(
                "{text:?} is not a time; use a whole number and one unit, as in 90s or 500ms"
            ));
        }
    };
    if !rest.is_empty() {
        let rest = excerpt(rest);
        return Err(format!("{rest:?} can't follow a time; write burst, horizon or by before it"));
    }
    let number = if number.is_empty() { 1 } else { self::number("the time", number)? };
    Ok(Duration::from_millis(millis.saturating_mul(number)))
}

/// Returns a time of whole milliseconds in the largest unit that divides it.
pub(super) fn in_largest_unit(time: Duration) -> (u128, &'static str) {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let millis = time.as_millis();
    let divides = |(_, unit): &(_, u128)| millis.is_multiple_of(*unit);
    let (unit, unit_millis) = units.into_iter().find(divides).unwrap_or(("ms", 1));
    (millis / unit_millis, unit)
}
