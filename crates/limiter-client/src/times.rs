//! Times in header fields: numbers, Unix times, dates and durations.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap,
    header::{AGE, DATE, RETRY_AFTER},
};

use crate::fields::texts;

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
    let first = texts(headers, AGE.as_str()).next().and_then(|text| text.split(',').next());
    first.and_then(|text| number(text.trim())).unwrap_or(0)
}

/// Returns the time of `retry-after-ms` or else of `Retry-After`, unless that is over. Of several values, the longest
/// counts.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let millis = texts(headers, "retry-after-ms").filter_map(number).map(Duration::from_millis);
    let other = texts(headers, RETRY_AFTER.as_str()).filter_map(|text| until(text, now));
    let lasting = |time: Option<Duration>| time.filter(|time| !time.is_zero());
    lasting(millis.max()).or_else(|| lasting(other.max()))
}

/// Returns the time from now until the one that a field names:
///
/// - a number of seconds, such as `60` and `59.9`, whose fraction is rounded up
/// - from 1,000,000,000 on, Unix time in seconds, and from 100,000,000,000 on in milliseconds
/// - a duration as Go prints it, such as `6m0s` and `120ms`
/// - a date and time by RFC 3339, such as `2026-01-31T12:00:00.5Z`
/// - an HTTP date
pub(crate) fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let left = |at: SystemTime| ceil(at.duration_since(now).unwrap_or_default());
    if let Some(number) = decimal(text) {
        return Some(match number {
            0..UNIX_SECONDS_FROM => Duration::from_secs(number),
            UNIX_SECONDS_FROM..UNIX_MILLIS_FROM => left(UNIX_EPOCH + Duration::from_secs(number)),
            // Later than any clock shows.
            UNIX_MILLIS_FROM.. => left(UNIX_EPOCH.checked_add(Duration::from_millis(number))?),
        });
    }
    let date = httpdate::parse_http_date(text).ok().or_else(|| rfc_3339(text));
    date.map(left).or_else(|| duration(text))
}

/// Returns a number of digits only. More digits than a number can have count as the largest number.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Returns a number whose fraction, if it has one, is rounded up.
fn decimal(text: &str) -> Option<u64> {
    let Some((whole, fraction)) = text.split_once('.') else { return number(text) };
    let has_more = number(fraction)? > 0;
    Some(number(whole)?.saturating_add(u64::from(has_more)))
}

/// Rounds up to a second.
fn ceil(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// Returns the sum of numbers with units.
fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let (value, others) = rest.split_at(rest.find(|it: char| !is_of_number(it))?);
        let (unit, others) = others.split_at(others.find(is_of_number).unwrap_or(others.len()));
        let unit = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        (seconds, rest) = (seconds + value.parse::<f64>().ok()? * unit, others);
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|_| !text.is_empty())
}

const fn is_of_number(character: char) -> bool {
    character.is_ascii_digit() || character == '.'
}

/// Returns a moment, whose fraction of a second is rounded up.
fn rfc_3339(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, zone) = time.split_at(time.find(['Z', 'z', '+', '-'])?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, offset) => {
            let [hours, minutes] = numbers(offset, ':')?;
            (hours * 3_600 + minutes * 60) * if sign == "-" { -1 } else { 1 }
        }
    };
    let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_valid || year > 9_999 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // The days since 0000-03-01 in the proleptic Gregorian calendar: years begin in March, so that a leap day is
    // the last one of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    const TO_1970: i64 = 719_468;
    let seconds = (days - TO_1970) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    let seconds = u64::try_from(seconds).ok()? + u64::from(number(fraction)? > 0);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Returns so many numbers of four digits at most.
fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let short = |text: &str| number(text).filter(|_| text.len() <= 4);
    let numbers: Option<Vec<_>> =
        text.split(between).map(|it| i64::try_from(short(it)?).ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_names_a_time_from_now_on() {
        // Saturday, 31 January 2026, 12:00:00 UTC.
        let now = UNIX_EPOCH + Duration::from_secs(1_769_860_800);
        let cases = [
            ("60", Some(60.0)),
            (" 2.0 ", Some(2.0)),
            ("299.997", Some(300.0)),
            ("0.001", Some(1.0)),
            ("999999999", Some(999_999_999.0)),
            ("1769860860", Some(60.0)),
            ("1769860860.2", Some(61.0)),
            ("1769860859001", Some(60.0)),
            ("1769860000", Some(0.0)),
            ("99999999999999999999999", Some(18_446_742_303_848_752.0)),
            ("6m0s", Some(360.0)),
            ("120ms", Some(0.12)),
            ("1h2m3.5s", Some(3_723.5)),
            ("2026-01-31T12:01:00Z", Some(60.0)),
            ("2026-01-31T12:00:59.123456Z", Some(60.0)),
            ("2026-01-31T13:01:00+01:00", Some(60.0)),
            ("2026-01-31T05:31:00-06:30", Some(60.0)),
            ("2026-03-01T12:00:00Z", Some(29.0 * 86_400.0)),
            ("2028-03-01T12:00:00Z", Some(760.0 * 86_400.0)),
            ("1999-12-31T23:59:59Z", Some(0.0)),
            ("Sat, 31 Jan 2026 12:01:00 GMT", Some(60.0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(0.0)),
            ("", None),
            ("soon", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            (".", None),
            ("1.2.3", None),
            ("5 minutes", None),
            ("1.2.3s", None),
            ("infs", None),
            ("2026-13-31T12:00:00Z", None),
            ("2026-01-31T12:00:00", None),
            ("2026-01-31T12:00:00+1", None),
            ("99999999999999999999-01-31T12:00:00Z", None),
        ];
        for (text, expected) in cases {
            let time = until(text, now).map(|time| time.as_secs_f64());
            assert_eq!(time, expected, "{text:?}");
        }
    }
}
