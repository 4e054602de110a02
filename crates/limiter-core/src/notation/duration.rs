//! Windows and horizons as text: a whole number and one unit.

use alloc::{format, string::String};
use core::time::Duration;

use super::number;
use crate::error::excerpt;

/// The units and their milliseconds, the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// Returns a duration of whole milliseconds in the largest unit that divides it.
pub(super) fn in_largest_unit(duration: Duration) -> (u128, &'static str) {
    let millis = duration.as_millis();
    let divides = |unit: &&(&str, u64)| millis.is_multiple_of(unit.1.into());
    let &(unit, unit_millis) = UNITS.iter().find(divides).unwrap_or(&("ms", 1));
    (millis / u128::from(unit_millis), unit)
}

/// Returns the duration, or its fault. The number may be left out if it is 1.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let number = text.strip_suffix(after).unwrap_or_default();
    let (unit, rest) = after.trim_start().split_once(' ').unwrap_or((after.trim_start(), ""));
    if !unit.chars().all(char::is_alphabetic) {
        let text = excerpt(text);
        return Err(format!(
            "{text:?} is not a time; use a whole number and one unit, as in 90s or 500ms"
        ));
    }
    let fault = match (millis(unit), rest) {
        (Some(millis), "") => {
            let number = if number.is_empty() { 1 } else { number::parse("the time", number)? };
            return Ok(Duration::from_millis(number.saturating_mul(millis)));
        }
        (Some(_), rest) => {
            let rest = excerpt(rest);
            return Err(format!(
                "{rest:?} can't follow a time; write burst, horizon or by before it"
            ));
        }
        (None, _) if unit.is_empty() => "the unit of time is missing".into(),
        (None, _) => format!("unknown unit of time {:?}", excerpt(unit)),
    };
    Err(format!("{fault}; use ms, s, min, h or d"))
}

fn millis(unit: &str) -> Option<u64> {
    let canonical = match unit {
        "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "mins" | "minute" | "minutes" => "min",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        unit => unit,
    };
    UNITS.iter().find(|(name, _)| *name == canonical).map(|(_, millis)| *millis)
}
