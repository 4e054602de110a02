//! Logs and sub-windows: permits by the time at which they were taken.

use super::{MAX_EXACT, time, whole, words};

/// The longest time for which an entry counts.
const MAX_SPAN: u64 = 64_000_000_000_000;
/// How far ahead permits may be promised.
const MAX_HORIZON: u64 = 158_112_000_000_000;
/// The most quotas of different spans that a log keeps apart.
const MOST_WRITERS: usize = 4;

/// A list, the first element of which has the newest entry. `at count total largest slot span horizon` if one
/// quota wrote it; `at count total largest` if several did, and `, slot span horizon newest` for each of them.
/// Each older entry is an element `at count`, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// The newest entry.
    pub(crate) newest: Entry,
    /// The permits of all entries of the list.
    pub(crate) total: u64,
    /// The most permits of a quota that charged the list. 0 in a log that replaced an impossible one.
    pub(crate) largest: u64,
    /// The quotas that count the entries, at most four.
    pub(crate) writers: Vec<Writer>,
    /// The older entries that were read, the oldest first.
    pub(crate) older: Vec<Entry>,
}

/// Permits that were taken at one time, or in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When the last of them was taken, in Unix time.
    pub(crate) at: u64,
    /// How many there are.
    pub(crate) count: u64,
}

/// A quota that charged a log, and counts its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    /// How long permits share an entry. It is 1 for a log.
    pub(crate) slot: u64,
    /// How long an entry counts, from the start of its slot.
    pub(crate) span: u64,
    /// How far ahead permits may be promised.
    pub(crate) horizon: u64,
    /// When its newest permits were taken, in Unix time. Once they have ended, it counts nothing.
    pub(crate) newest: u64,
}

impl Log {
    /// Returns the log of some elements, which may be the first one alone, or the first one and any of the
    /// older ones. Returns `None` if one of them is not valid.
    pub(crate) fn parse<'a>(elements: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut elements = elements.into_iter();
        let mut head = elements.next()?.split(", ");
        let first: Vec<&str> = head.next()?.split(' ').collect();
        let (&[at, count, total, largest], rest) = first.split_first_chunk()?;
        let newest = Entry::parse([at, count])?;
        let writers = match rest {
            [] => {
                let writers = head.map(|text| Writer::parse(words(text)?));
                let writers = writers.collect::<Option<Vec<_>>>()?;
                // The only one has charged the newest entry, so its time is not written.
                Some(writers).filter(|writers| (2..=MOST_WRITERS).contains(&writers.len()))?
            }
            &[slot, span, horizon] if head.next().is_none() => {
                vec![Writer::parse([slot, span, horizon, at])?]
            }
            _ => return None,
        };
        let (total, largest) = (amount(total)?, amount(largest)?);
        // The latest time and the most permits of the entries before the next one.
        let (mut latest, mut left) = (None, total.checked_sub(newest.count)?);
        let older = elements.map(|element| {
            let entry = Entry::parse(words(element)?)?;
            left = left.checked_sub(entry.count)?;
            let is_next = latest.replace(entry.at) < Some(entry.at) && entry.at < newest.at;
            is_next.then_some(entry)
        });
        Some(Self { newest, total, largest, older: older.collect::<Option<_>>()?, writers })
    }

    /// Returns when the permits of an entry stop counting for all quotas.
    pub(crate) fn end_of(&self, entry: &Entry) -> u64 {
        self.writers.iter().map(|writer| writer.end_of(entry)).max().unwrap_or(0)
    }

    /// Returns how far ahead of now the newest entry may be.
    pub(crate) fn reach(&self) -> u64 {
        self.writers.iter().map(|writer| writer.horizon.max(writer.slot)).max().unwrap_or(0)
    }
}

impl Writer {
    fn parse([slot, span, horizon, newest]: [&str; 4]) -> Option<Self> {
        let (slot, span, horizon) = (whole(slot)?, whole(span)?, whole(horizon)?);
        let is_valid = (1..=span).contains(&slot) && span <= MAX_SPAN && horizon <= MAX_HORIZON;
        is_valid.then_some(Self { slot, span, horizon, newest: time(newest)? })
    }

    /// Returns when the permits of an entry stop counting for this quota. It counts no permits that others
    /// took after its own.
    pub(crate) fn end_of(&self, entry: &Entry) -> u64 {
        let at = entry.at.min(self.newest);
        at - at % self.slot + self.span
    }
}

impl Entry {
    fn parse([at, count]: [&str; 2]) -> Option<Self> {
        let count = amount(count).filter(|count| *count > 0)?;
        Some(Self { at: time(at)?, count })
    }
}

/// Returns a number of permits.
fn amount(word: &str) -> Option<u64> {
    whole(word).filter(|count| *count <= MAX_EXACT)
}
