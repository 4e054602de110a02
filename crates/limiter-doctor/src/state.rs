//! Stored values, decoded as the scripts count them, and in words.

mod in_flight;
#[cfg(test)]
mod tests;

use std::time::Duration;

use limiter_core::Limit;

use crate::{
    identity::{Family, Identity},
    read::Log,
    words::{permits, time},
};

pub(crate) use in_flight::{InFlight, Permits};

/// What a limit has stored of a subject.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) used: Used,
    /// Whether all entries of a log were read that no longer count. Otherwise fewer permits may be in use.
    is_exact: bool,
    /// Whether nothing is admitted before a reservation's moment.
    is_reserved: bool,
    /// The time until nothing is in use.
    pub(crate) free_in: Duration,
    /// What is wrong with the value, and what happens next.
    pub(crate) problem: Option<&'static str>,
}

/// How much of a limit is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// By GCRA: how much of the time in which a burst recovers, in ticks. More than all of it is reserved.
    Part { ticks: u64, span: u64 },
    /// By other algorithms.
    Permits(u64),
    /// All of it, until a block ends.
    Blocked,
}

const NOT_A_STATE: &str = "No limiter writes this value. The next check counts all permits as in use, and replaces it. \
                           Find out which program wrote it.";

const TOO_FAR: &str = "The time in it is further ahead than the limit allows: the server's clock was set back, or \
                       another program wrote it. The next check counts all permits as in use, and replaces it.";

/// The ticks of a microsecond: times by GCRA may have four decimals.
const TICKS: u64 = 10_000;

/// The digits of a time, in microseconds of Unix time.
const TIME_DIGITS: usize = 16;

/// The most digits of a number of permits.
const COUNT_DIGITS: usize = 15;

/// Permits of a fixed or aligned window, or of a sliding counter. All times are microseconds.
#[derive(Clone, Copy)]
struct Window {
    ends: u64,
    count: u64,
    /// The permits of the window before, by a sliding counter.
    before: u64,
}

impl State {
    /// Returns the state in a field of a hash, at the server's time `now` in microseconds.
    pub(crate) fn of_field(identity: &Identity, text: &str, now: u64) -> Self {
        let state = match identity.family {
            Family::Gcra | Family::Block => gcra(identity, text, now),
            Family::FixedWindow | Family::AlignedWindow | Family::SlidingCounter => {
                windows(identity, text, now)
            }
            Family::SubWindows | Family::SlidingLog => None,
        };
        state.unwrap_or_else(|| Self::not_a_state(identity))
    }

    /// Returns the state in a list.
    pub(crate) fn of_log(identity: &Identity, log: &Log, now: u64) -> Self {
        self::log(identity, log, now).unwrap_or_else(|| Self::not_a_state(identity))
    }

    fn new(used: Used, free_in: u64) -> Self {
        Self {
            used,
            is_exact: true,
            is_reserved: false,
            free_in: Duration::from_micros(free_in),
            problem: None,
        }
    }

    fn not_a_state(identity: &Identity) -> Self {
        let used = match identity.family {
            Family::Gcra => Used::Part { ticks: 0, span: ticks(identity.span) },
            _ => Used::Permits(0),
        };
        Self { problem: Some(NOT_A_STATE), ..Self::new(used, 0) }
    }

    /// Returns how many permits of a limit are in use.
    pub(crate) fn permits(&self, limit: &Limit) -> u64 {
        match self.used {
            Used::Part { ticks, .. } => permits_of(limit, ticks),
            Used::Permits(used) => used,
            Used::Blocked => limit.quota().burst(),
        }
    }

    /// Returns which part of a limit is in use.
    #[expect(clippy::cast_precision_loss, reason = "it only sorts")]
    pub(crate) fn part(&self, limit: Option<&Limit>) -> f64 {
        match (self.used, limit) {
            (Used::Part { ticks, span }, _) => ticks as f64 / span as f64,
            (Used::Permits(used), Some(limit)) => used as f64 / limit.quota().burst() as f64,
            (Used::Permits(used), None) => used as f64,
            (Used::Blocked, _) => 1.0,
        }
    }

    /// Returns how much is in use, such as `3 of 10 permits`, or without the limit `30 % of 60 s` or `3 permits`.
    pub(crate) fn amount(&self, limit: Option<&Limit>) -> String {
        let most = if self.is_exact { "" } else { "at most " };
        match (self.used, limit) {
            (_, Some(limit)) => {
                format!("{most}{} of {}", self.permits(limit), permits(limit.quota().burst()))
            }
            (Used::Part { ticks, span }, None) => {
                let percent = (u128::from(ticks) * 100).div_ceil(u128::from(span.max(1)));
                format!("{percent} % of {}", in_words(span / TICKS))
            }
            (Used::Permits(used), None) => format!("{most}{}", permits(used)),
            (Used::Blocked, None) => "blocked".to_owned(),
        }
    }

    /// Returns a sentence on what is in use.
    pub(crate) fn sentence(&self, limit: Option<&Limit>) -> String {
        let amount = self.amount(limit);
        if self.used == Used::Blocked {
            return match self.free_in.is_zero() {
                true => "no longer blocked".to_owned(),
                false => format!("blocked for {} more", time(self.free_in)),
            };
        }
        let (used, all) = match (self.used, limit) {
            (Used::Part { .. }, None) => (format!("{amount} is used up"), "all of it is free"),
            (_, None) => (format!("{amount} in use"), "all are free"),
            (_, Some(limit)) => {
                let left = limit.quota().burst().saturating_sub(self.permits(limit));
                let least = if self.is_exact { "" } else { "at least " };
                let left = match self.is_reserved {
                    true => "none left before a reservation".to_owned(),
                    false => format!("{least}{left} left"),
                };
                (format!("{amount} in use, {left}"), "all are free")
            }
        };
        match self.free_in.is_zero() {
            true => used,
            false => format!("{used}; {all} in {}", time(self.free_in)),
        }
    }
}

/// Decodes the time at which all permits are back, which may have four decimals.
fn gcra(identity: &Identity, text: &str, now: u64) -> Option<State> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0000"));
    let (at, part) = (unix_time(whole)?, number(part).filter(|_| part.len() == 4)?);
    let left = at.checked_sub(now);
    let used = left.map_or(0, |left| left.saturating_mul(TICKS).saturating_add(part));
    let span = ticks(identity.span);
    let most = span.saturating_add(ticks(identity.horizon()));
    let mut state = State::new(Used::Part { ticks: used, span }, used.div_ceil(TICKS));
    if identity.family == Family::Block {
        state.used = Used::Blocked;
    }
    // What permits add is rounded up by less than a thousandth.
    state.problem = (used > most.saturating_add(most / 256 + 100_000)).then_some(TOO_FAR);
    Some(state)
}

/// Returns how many permits a limit by GCRA counts, which recover in so many ticks. A permit takes a whole number of
/// microseconds, rounded up, or if that adds a thousandth or more, of ticks.
fn permits_of(limit: &Limit, ticks: u64) -> u64 {
    let (window, permits) =
        (limit.quota().window().as_micros(), u128::from(limit.quota().permits()));
    let (whole, scale) = (window.div_ceil(permits), u128::from(TICKS));
    let used = match (whole * permits - window) * 1_000 < window {
        true => u128::from(ticks).div_ceil(scale).div_ceil(whole),
        false => u128::from(ticks).div_ceil((window * scale).div_ceil(permits)),
    };
    u64::try_from(used).unwrap_or(u64::MAX)
}

/// Decodes the windows of a limit, the newest first, which decides.
fn windows(identity: &Identity, text: &str, now: u64) -> Option<State> {
    let fades = identity.family == Family::SlidingCounter;
    let length = micros(identity.span);
    let windows = text.split(", ").map(|text| Window::parse(text, fades, length));
    let windows = windows.collect::<Option<Vec<_>>>()?;
    let newest = windows.first()?;
    let now_in = newest.at(now, fades, length);
    let free_in = if now_in.count + now_in.before == 0 {
        0
    } else if fades && now_in.count > 0 {
        now_in.ends + length - now
    } else {
        now_in.ends - now
    };
    let used = now_in.count + now_in.fading(now, length);
    let mut state = State::new(Used::Permits(used), free_in);
    state.is_reserved = newest.count > 0 && newest.ends.saturating_sub(length) > now;
    let ahead = length
        + ahead(identity).max(if identity.family == Family::AlignedWindow { length } else { 0 });
    state.problem = (newest.ends > now + ahead).then_some(TOO_FAR);
    Some(state)
}

impl Window {
    fn parse(text: &str, fades: bool, length: u64) -> Option<Self> {
        let words: Vec<_> = text.split(' ').collect();
        match (words.as_slice(), fades) {
            ([past, count], false) => {
                Some(Self { ends: unix_time(past)?, count: self::count(count)?, before: 0 })
            }
            ([past, count, before], true) => Some(Self {
                ends: unix_time(past)?.saturating_sub(length),
                count: self::count(count)?,
                before: self::count(before)?,
            }),
            _ => None,
        }
    }

    /// Returns the window as it is at a moment: the one behind it, if that counts its permits, or an empty one.
    fn at(self, now: u64, fades: bool, length: u64) -> Self {
        match self.ends > now {
            true => self,
            false if fades && self.ends + length > now => {
                Self { ends: self.ends + length, count: 0, before: self.count }
            }
            false => Self { count: 0, before: 0, ..self },
        }
    }

    /// Returns how many permits of the window before still count.
    fn fading(self, now: u64, length: u64) -> u64 {
        let left = u128::from(self.ends.saturating_sub(now).min(length));
        let fading = (left * u128::from(self.before)).div_ceil(u128::from(length.max(1)));
        u64::try_from(fading).unwrap_or(u64::MAX)
    }
}

/// Decodes the first element of a log: its newest entry, and the sum of all.
fn log(identity: &Identity, log: &Log, now: u64) -> Option<State> {
    let words: Vec<_> = log.head.split(' ').collect();
    let [at, newest, sum] = words.as_slice() else { return None };
    let (at, newest, sum) = (unix_time(at)?, count(newest)?, count(sum)?);
    let (slot, span) = (micros(identity.slot()), micros(identity.span));
    let begins = at - at % slot;
    let left = (begins + span).saturating_sub(now);
    let used = if left > 0 { sum.saturating_sub(log.ended).max(newest) } else { 0 };
    let is_possible = at <= now + ahead(identity).max(slot);
    let mut state = State::new(Used::Permits(used), if used > 0 { left } else { 0 });
    state.is_exact = log.is_whole || left == 0;
    state.is_reserved = begins > now;
    state.problem = (!is_possible).then_some(TOO_FAR);
    (newest <= sum).then_some(state)
}

/// Returns how far ahead permits may be reserved, of any quota whose horizon has the same length.
fn ahead(identity: &Identity) -> u64 {
    let horizon = micros(identity.horizon());
    horizon + horizon / 512 + 1
}

/// Returns a time in microseconds of Unix time.
fn unix_time(word: &str) -> Option<u64> {
    number(word).filter(|_| word.len() == TIME_DIGITS)
}

/// Returns a number of permits.
fn count(word: &str) -> Option<u64> {
    number(word).filter(|_| word.len() <= COUNT_DIGITS)
}

/// Returns a number that is written as digits only.
pub(crate) fn number(word: &str) -> Option<u64> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

/// Returns microseconds in words.
fn in_words(micros: u64) -> String {
    time(Duration::from_micros(micros))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().saturating_mul(u128::from(TICKS)) / 1_000).unwrap_or(u64::MAX)
}
