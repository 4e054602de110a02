//! Whole windows, and what was taken in them.

use super::{Family, MAX_WINDOW, time, whole};

/// How far ahead the end of a window may be.
const MAX_REACH: u64 = 189_734_400_000_000;
/// The most permits that a window counts.
const MAX_COUNT: u64 = 158_112_000_000_000;
/// The most windows of a key.
const MOST_WINDOWS: usize = 4;

/// `since length reach count`, and for the sliding counter ` previous`. Then ` shortest end`, if one of them
/// is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Since when it counts, in Unix time. An aligned window may begin earlier.
    pub(crate) since: u64,
    /// How long the window is.
    pub(crate) length: u64,
    /// How far ahead the end may be.
    pub(crate) reach: u64,
    /// The permits taken in the window.
    pub(crate) count: u64,
    /// The permits taken in the window before. Only the sliding counter has them.
    pub(crate) previous: Option<u64>,
    /// The shortest length whose quotas decide by this window. Usually its own length.
    pub(crate) shortest: u64,
    /// When the window ends, in Unix time. Usually it ends a length after `since`, and an aligned window at
    /// the next multiple of its length.
    pub(crate) end: u64,
}

impl Window {
    /// Returns the windows of a value, which are separated by a comma and a space.
    pub(super) fn parse_all(family: Family, text: &str) -> Option<Vec<Self>> {
        let windows = text.split(", ").map(|text| Self::parse(family, text));
        let windows = windows.collect::<Option<Vec<_>>>()?;
        (windows.len() <= MOST_WINDOWS).then_some(windows)
    }

    fn parse(family: Family, text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let (&[since, length, reach, count], rest) = words.split_first_chunk()?;
        let (previous, rest) = match rest.split_first() {
            Some((previous, rest)) if family == Family::SlidingCounter => {
                (Some(whole(previous)?), rest)
            }
            _ if family == Family::SlidingCounter => return None,
            _ => (None, rest),
        };
        let (since, length) =
            (time(since)?, whole(length).filter(|it| (1_000..=MAX_WINDOW).contains(it))?);
        let is_aligned = family == Family::AlignedWindow;
        let usual = (length, since + length - if is_aligned { since % length } else { 0 });
        let (shortest, end) = match rest {
            [] => usual,
            [shortest, end] => {
                Some((whole(shortest)?, time(end)?)).filter(|found| *found != usual)?
            }
            _ => return None,
        };
        let (reach, count) = (whole(reach)?, whole(count)?);
        // An aligned window ends one length later if it has the count of another window, which counts for
        // longer, or replaced an impossible one.
        let is_end = end == usual.1 || is_aligned && end == usual.1 + length;
        let is_valid = (length..=MAX_REACH).contains(&reach)
            && count.max(previous.unwrap_or(0)) <= MAX_COUNT
            && (1_000..=length).contains(&shortest)
            && is_end;
        is_valid.then_some(Self { since, length, reach, count, previous, shortest, end })
    }

    /// Returns whether a quota with windows of this length decides by this window.
    pub(crate) const fn serves(&self, length: u64) -> bool {
        self.shortest <= length && length <= self.length
    }
}
