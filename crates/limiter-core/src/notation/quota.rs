//! How quotas are written.

use alloc::{format, string::String};
use core::{fmt, str::FromStr, time::Duration};

use super::number;
use crate::{Error, ErrorKind, Quota};

/// The units of time, the longest first: how they are printed, how else they may be written, and
/// how many milliseconds they have.
const UNITS: [(&str, &[&str], u64); 5] = [
    ("d", &["day"], 86_400_000),
    ("h", &["hour"], 3_600_000),
    ("min", &["m", "minute"], 60_000),
    ("s", &["sec", "second"], 1_000),
    ("ms", &[], 1),
];

/// Writes the shortest text that reads back to the same.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window().as_millis();
        let divides = |unit: &&(&str, &[&str], u64)| window.is_multiple_of(unit.2.into());
        let &(unit, _, millis) = UNITS.iter().find(divides).unwrap_or(&("ms", &[], 1));
        write!(f, "{}/", self.permits())?;
        match window / u128::from(millis) {
            1 => f.write_str(unit)?,
            number => write!(f, "{number}{unit}")?,
        }
        if self.burst() == self.permits() {
            return Ok(());
        }
        write!(f, " burst {}", self.burst())
    }
}

impl FromStr for Quota {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text.trim()).map_err(|fault| {
            let message = format!("a quota {:?}: {fault}", text.trim());
            Error::new(ErrorKind::InvalidQuota, message)
        })
    }
}

fn parse(text: &str) -> Result<Quota, String> {
    let Some((permits, rest)) = text.split_once('/') else {
        return Err("there is no \"/\"; write permits per time, as in 100/min".into());
    };
    let permits = number::parse(permits.trim_end())?;
    let (window, rest) = parse_window(rest.trim_start())?;
    let quota = Quota::per(permits, window).map_err(|error| format!("{error}"))?;
    if rest.is_empty() {
        return Ok(quota);
    }
    let burst = rest.strip_prefix("burst").filter(|burst| burst.starts_with(char::is_whitespace));
    let Some(burst) = burst else {
        return Err(format!("{rest:?} is unknown; after the time comes a burst, as in burst 20"));
    };
    quota.with_burst(number::parse(burst.trim_start())?).map_err(|error| format!("{error}"))
}

/// Returns the window that `text` begins with, and what follows it.
fn parse_window(text: &str) -> Result<(Duration, &str), String> {
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let number = text.strip_suffix(after_number).unwrap_or_default();
    let number = if number.is_empty() { 1 } else { number::parse(number)? };
    let (unit, rest) = match after_number.trim_start().split_once(char::is_whitespace) {
        Some((unit, rest)) => (unit, rest.trim_start()),
        None => (after_number.trim_start(), ""),
    };
    let known = UNITS.iter().find(|(name, others, _)| *name == unit || others.contains(&unit));
    let Some((.., millis)) = known else {
        let fault = if unit.is_empty() {
            "there is no unit of time".into()
        } else {
            format!("{unit:?} is no unit of time")
        };
        return Err(format!("{fault}; use ms, s, min, h or d"));
    };
    let window = number.checked_mul(*millis).map(Duration::from_millis);
    match window.filter(|window| *window <= Quota::MAX_WINDOW) {
        Some(window) => Ok((window, rest)),
        None => {
            let days = Quota::MAX_WINDOW.as_secs() / 86_400;
            Err(format!("a window of {number}{unit} is too long; use at most {days}d"))
        }
    }
}
