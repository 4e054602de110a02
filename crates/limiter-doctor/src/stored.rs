//! Stored states, decoded. The scripts define the forms.
//!
//! The decoder accepts the values that a script leaves, and no others. Numbers are decimal digits without a
//! sign; times are microseconds. Whether a state's time is possible depends on the clock, so the caller
//! decides that.

mod family;
mod log;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use family::{Family, UnknownFamily};
pub(crate) use log::{Log, Writer};
pub(crate) use window::Window;

/// The longest window.
const MAX_WINDOW: u64 = 31_622_400_000_000;
/// The largest debt of GCRA.
const MAX_DEBT: u64 = 400_000_000_000_000;
/// The largest whole number up to which scripts compute exactly.
const MAX_EXACT: u64 = 1 << 53;
/// The digits of a time.
const TIME_DIGITS: usize = 16;

/// A state that is stored as a string. [`Log`] is the one that is stored as a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Of GCRA and its other names.
    Gcra(Gcra),
    /// Of fixed or aligned windows, or of the sliding counter: one to four windows of different lengths, in
    /// the order in which they were opened.
    Windows(Vec<Window>),
}

/// `TAT increment reach`, in ticks: microseconds, or their ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    /// When the debt is paid off, in Unix time.
    pub(crate) tat: u128,
    /// The debt that a permit adds.
    pub(crate) increment: u64,
    /// The largest debt that the quota can leave.
    pub(crate) reach: u64,
    /// How many ticks a microsecond has: 1, or 10,000 if the numbers have four decimals.
    pub(crate) scale: u64,
}

impl State {
    /// Returns the state in the value of a string key. Returns `None` if the value is not a state, or if the
    /// family is stored as a list, which [`Log::parse`] decodes, or as a set.
    pub(crate) fn parse(family: Family, text: &str) -> Option<Self> {
        match family {
            Family::Gcra => Gcra::parse(text).map(Self::Gcra),
            Family::FixedWindow | Family::AlignedWindow | Family::SlidingCounter => {
                Window::parse_all(family, text).map(Self::Windows)
            }
            Family::SlidingLog | Family::SubWindows | Family::InFlight => None,
        }
    }
}

/// Returns when the latest lease of a key ends, in Unix time, from the value of its key of leases.
pub(crate) fn parse_leases(text: &str) -> Option<u64> {
    time(text)
}

impl Gcra {
    fn parse(text: &str) -> Option<Self> {
        let [tat, increment, reach] = words(text)?.map(parts);
        let decimals = tat.1.len();
        if tat.0.len() != TIME_DIGITS
            || !matches!(decimals, 0 | 4)
            || [increment, reach].iter().any(|number| number.1.len() != decimals)
            || text.matches('.').count() != if decimals == 0 { 0 } else { 3 }
        {
            return None;
        }
        let scale = if decimals == 0 { 1 } else { 10_000 };
        let ticks = |(whole, part): (&str, &str)| -> Option<u128> {
            let part = if part.is_empty() { 0 } else { number(part)? };
            u128::from(number(whole)?).checked_mul(scale.into())?.checked_add(part.into())
        };
        let small = |ticks: u128| u64::try_from(ticks).ok();
        let tat = ticks(tat)?;
        let (increment, reach) = (small(ticks(increment)?)?, small(ticks(reach)?)?);
        let is_valid = (1..=MAX_WINDOW.min(reach)).contains(&increment)
            && reach <= MAX_EXACT.min(MAX_DEBT * scale);
        is_valid.then_some(Self { tat, increment, reach, scale })
    }
}

/// Returns the words of a text, which single spaces separate, if there are `N`.
fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split(' ').collect::<Vec<_>>().try_into().ok()
}

/// Returns a number's digits before and after the point.
fn parts(word: &str) -> (&str, &str) {
    word.split_once('.').unwrap_or((word, ""))
}

/// Returns a time in Unix time, from 2001 on.
fn time(word: &str) -> Option<u64> {
    whole(word).filter(|_| word.len() == TIME_DIGITS)
}

/// Returns a number that is written as digits only, without zeros in front.
fn whole(word: &str) -> Option<u64> {
    number(word).filter(|_| word == "0" || !word.starts_with('0'))
}

/// Returns a number that is written as digits only.
fn number(word: &str) -> Option<u64> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}
