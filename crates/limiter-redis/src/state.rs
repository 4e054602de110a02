//! Stored states, decoded. This is the only decoder; the scripts define the forms.
//!
//! It accepts the values that a script accepts as a state, and no others. Numbers are decimal digits
//! without a sign; times are microseconds. Whether a state's time is possible depends on the clock,
//! so the caller decides that.

mod family;
mod log;

pub use family::{Family, UnknownFamily, stored_families, stored_family};
pub use log::{Entry, Log};

/// The longest window.
const MAX_WINDOW: u64 = 31_622_400_000_000;
/// How far ahead the end of a window may be.
const MAX_WINDOW_REACH: u64 = 189_734_400_000_000;
/// The largest debt of GCRA.
const MAX_DEBT: u64 = 400_000_000_000_000;
/// The most permits that a window counts.
const MAX_COUNT: u64 = 158_112_000_000_000;
/// The largest whole number up to which scripts compute exactly.
const MAX_EXACT: u64 = 1 << 53;
/// The digits of a time.
const TIME_DIGITS: usize = 16;

/// A state of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A limit of several that is fresh.
    Fresh,
    /// Of GCRA and its other names.
    Gcra(Gcra),
    /// Of a fixed or aligned window, or of the sliding counter.
    Window(Window),
    /// Of a log or of sub-windows.
    Log(Log),
}

/// `TAT increment reach`, in ticks: microseconds, or their ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// When the debt is paid off, in Unix time.
    pub tat: u128,
    /// The debt that a permit adds.
    pub increment: u64,
    /// The largest debt that the quota can leave.
    pub reach: u64,
    /// How many ticks a microsecond has: 1, or 10,000 if the numbers have four decimals.
    pub scale: u64,
}

/// `end length reach count`, and for the sliding counter ` previous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When the window ends, in Unix time.
    pub end: u64,
    /// How long the window is.
    pub length: u64,
    /// How far ahead the end may be.
    pub reach: u64,
    /// The permits taken in the window.
    pub count: u64,
    /// The permits taken in the window before. Only the sliding counter has them.
    pub previous: Option<u64>,
}

impl State {
    /// Returns the state of a policy's only limit, from the value of a string key. Returns `None` if the
    /// value is not a state, or if the family is stored as a list, which [`Log::parse`] decodes.
    #[must_use]
    pub fn parse(family: Family, text: &str) -> Option<Self> {
        match family {
            Family::Gcra => Gcra::parse(text).map(Self::Gcra),
            Family::FixedWindow | Family::AlignedWindow => {
                Window::parse(text).filter(|window| window.previous.is_none()).map(Self::Window)
            }
            Family::SlidingCounter => {
                Window::parse(text).filter(|window| window.previous.is_some()).map(Self::Window)
            }
            Family::SlidingLog | Family::SubWindows => None,
        }
    }

    /// Returns the states of several limits, from their value, in the order of `families`. One that is not
    /// a state is `None`. Returns `None` if there are not as many as families.
    #[must_use]
    pub fn parse_several(families: &[Family], text: &str) -> Option<Vec<Option<Self>>> {
        let texts: Vec<&str> = text.split(", ").collect();
        let parse = |(family, text): (&Family, &str)| match text {
            "-" => Some(Self::Fresh),
            _ if family.is_list() => Log::parse(text.split(';')).map(Self::Log),
            _ => Self::parse(*family, text),
        };
        let has_all = texts.len() == families.len();
        has_all.then(|| families.iter().zip(texts).map(parse).collect())
    }
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

impl Window {
    fn parse(text: &str) -> Option<Self> {
        let (window, previous) = match words(text) {
            Some(four) => (four, None),
            None => {
                let [end, length, reach, count, previous] = words(text)?;
                ([end, length, reach, count], Some(number(previous)?))
            }
        };
        let [end, length, reach, count] = window;
        let window = Self {
            end: time(end)?,
            length: number(length)?,
            reach: number(reach)?,
            count: number(count)?,
            previous,
        };
        let is_valid = (1_000..=MAX_WINDOW.min(window.reach)).contains(&window.length)
            && window.reach <= MAX_WINDOW_REACH
            && window.count.max(previous.unwrap_or(0)) <= MAX_COUNT;
        is_valid.then_some(window)
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

/// Returns a time in Unix time.
fn time(word: &str) -> Option<u64> {
    number(word).filter(|_| word.len() == TIME_DIGITS)
}

/// Returns a number that is written as digits only.
fn number(word: &str) -> Option<u64> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}
