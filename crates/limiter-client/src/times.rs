//! Times in header fields: numbers of seconds, Unix times and dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap,
    header::{AGE, DATE, RETRY_AFTER},
};

/// A number from this on is Unix time in seconds: from September 2001 on. Below, it is a number of
/// seconds from now, up to 31 years.
const UNIX_SECONDS_FROM: u64 = 1_000_000_000;

/// A number from this on is Unix time in milliseconds: from March 1973 on. As seconds, it would be in
/// the year 5138.
const UNIX_MILLIS_FROM: u64 = 100_000_000_000;

/// Returns the server's time: that of the field `Date`, so that a client's clock that is wrong does not
/// matter, or else that of this machine.
pub(crate) fn server_time(headers: &HeaderMap) -> SystemTime {
    let date =
        headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    date.unwrap_or_else(SystemTime::now)
}

/// Returns the seconds of `Age`: for how long a response was in caches. As RFC 9111, section 5.1 has it, only the
/// first of several values counts, and one that is not a number counts as absent.
pub(crate) fn age(headers: &HeaderMap) -> u64 {
    let first = || headers.get(AGE)?.to_str().ok()?.split(',').next();
    first().and_then(|text| number(text.trim())).unwrap_or(0)
}

/// Returns the time of `Retry-After` from now on, in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    number(text).map(Duration::from_secs).or_else(|| until_date(text, now))
}

/// Returns the time until a reset, rounded up to seconds. The text is a number of seconds, of which a
/// fraction is cut off, a Unix time in seconds or milliseconds, or an HTTP date.
pub(crate) fn reset(text: &str, now: SystemTime) -> Option<u64> {
    let text = text.trim();
    // Drafts 03 to 06 have lists of policies.
    let Some(number) = text.split(['.', ',', ';']).next().and_then(|text| number(text.trim()))
    else {
        return until_date(text, now).map(|left| left.as_secs());
    };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(match number {
        0..UNIX_SECONDS_FROM => number,
        UNIX_SECONDS_FROM..UNIX_MILLIS_FROM => number.saturating_sub(now.as_secs()),
        UNIX_MILLIS_FROM.. => {
            let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            number.saturating_sub(now).div_ceil(1_000)
        }
    })
}

/// Returns a number of digits only. More digits than a number can have count as the largest number.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn until_date(text: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    // A date has whole seconds, so the time is rounded up to the next.
    let left = date.duration_since(now).unwrap_or_default();
    Some(Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0)))
}
