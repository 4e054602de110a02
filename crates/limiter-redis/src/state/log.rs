//! Logs and sub-windows: permits by the time at which they were taken.

use super::{number, time, words};

/// The longest time for which an entry counts.
const MAX_SPAN: u64 = 64_000_000_000_000;
/// How far ahead permits may be promised.
const MAX_HORIZON: u64 = 158_112_000_000_000;
/// The most digits of a count or a total.
const MAX_DIGITS: usize = 16;

/// Elements, the first of which is `at count total slot span horizon` with the newest entry. Each older
/// entry is an element `at count total`, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The newest entry.
    pub newest: Entry,
    /// How long permits share an entry. It is 1 for a log.
    pub slot: u64,
    /// How long an entry counts, from the start of its slot.
    pub span: u64,
    /// How far ahead permits may be promised.
    pub horizon: u64,
    /// The older entries that were read, the oldest first.
    pub older: Vec<Entry>,
}

/// Permits that were taken at one time, or in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the last of them was taken, in Unix time.
    pub at: u64,
    /// How many there are.
    pub count: u64,
    /// The running total: the permits of this entry and of all before it, with those that are removed.
    pub total: u64,
}

impl Log {
    /// Returns the log of some elements, which may be the first one alone, or the first one and any of the
    /// older ones. Returns `None` if one of them is not valid.
    pub fn parse<'a>(elements: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut elements = elements.into_iter();
        let [at, count, total, slot, span, horizon] = words(elements.next()?)?;
        let newest = Entry::parse([at, count, total])?;
        let (slot, span, horizon) = (number(slot)?, number(span)?, number(horizon)?);
        if slot == 0 || slot > span || span > MAX_SPAN || horizon > MAX_HORIZON {
            return None;
        }
        let before = newest.total - newest.count;
        let older = elements.map(|element| {
            let entry = Entry::parse(words(element)?)?;
            (entry.at <= newest.at && entry.total <= before).then_some(entry)
        });
        Some(Self { newest, slot, span, horizon, older: older.collect::<Option<_>>()? })
    }

    /// Returns when the permits of an entry stop counting.
    #[must_use]
    pub const fn end_of(&self, entry: &Entry) -> u64 {
        (entry.at - entry.at % self.slot).saturating_add(self.span)
    }

    /// Returns the permits of an older entry and of all after it, or of the newest entry.
    #[must_use]
    pub const fn permits_from(&self, entry: &Entry) -> u64 {
        (self.newest.total - entry.total).saturating_add(entry.count)
    }

    /// Returns the permits that count at a time, if all older entries that count then were read, or the
    /// oldest of them.
    #[must_use]
    pub fn permits_at(&self, now: u64) -> u64 {
        let mut entries = self.older.iter().chain([&self.newest]);
        let oldest = entries.find(|entry| self.end_of(entry) > now);
        oldest.map_or(0, |entry| self.permits_from(entry))
    }
}

impl Entry {
    fn parse([at, count, total]: [&str; 3]) -> Option<Self> {
        if count.len().max(total.len()) > MAX_DIGITS {
            return None;
        }
        let entry = Self { at: time(at)?, count: number(count)?, total: number(total)? };
        (entry.count <= entry.total).then_some(entry)
    }
}
