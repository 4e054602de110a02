//! Quotas as text: `100/min burst 20`.

use alloc::string::String;
use core::{fmt, str::FromStr};

use super::{duration, number, parts::Parts};
use crate::{Error, ErrorKind, Quota};

/// Writes the shortest text that reads back as the same quota.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.permits())?;
        match duration::in_largest_unit(self.window()) {
            (1, unit) => f.write_str(unit)?,
            (number, unit) => write!(f, "{number}{unit}")?,
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
        let quota = Parts::split(text).and_then(|parts| {
            if parts.horizon.is_some() || parts.by.is_some() {
                return Err("a quota has no horizon and no algorithm; leave them out".into());
            }
            parse(&parts)
        });
        let invalid = |fault| Error::invalid(ErrorKind::InvalidQuota, "quota", text.trim(), fault);
        quota.map_err(invalid)
    }
}

/// Returns the quota of a limit's text, or its fault.
pub(super) fn parse(parts: &Parts) -> Result<Quota, String> {
    let rate = parts.rate.as_deref().unwrap_or_default();
    let Some((permits, window)) = rate.split_once('/') else {
        return Err("it has no \"/\"; write permits per time, as in 100/min".into());
    };
    let permits = number::parse("the number of permits", permits.trim_end())?;
    let window = duration::parse(window.trim_start())?;
    let quota = Quota::checked(permits, window)?;
    let Some(burst) = &parts.burst else { return Ok(quota) };
    let burst = number::parse("the burst", burst)?;
    Ok(quota.checked_burst(burst)?)
}
