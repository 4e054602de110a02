//! What a quota counts: the entries of a log, and how far a count may be overshot.

use super::entries::{Entries, Entry, Span};

/// Returns the most permits that may be charged for now where `counted` of a limit's permits count, and a
/// state has the count `count`: any number until the limit is overshot, and then none.
///
/// A count grows only so far that charges of other quotas stay below the largest one that scripts accept.
pub(super) fn most_chargeable(limit: u64, counted: u64, count: u64) -> u64 {
    const MOST_COUNTED: u64 = 100_000_000_000_000;
    match limit.checked_sub(counted) {
        Some(room) => room.max(MOST_COUNTED.saturating_sub(count)),
        None => 0,
    }
}

/// A key's entries as a quota counts them. Times are in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) entries: &'a Entries,
    pub(super) span: Span,
}

impl Counted<'_> {
    /// Returns when an entry will not count any more: by this quota, or when those that wrote forget
    /// it, if that is earlier.
    pub(super) fn end_of(&self, entry: &Entry) -> u64 {
        self.span.end_of(entry.at).min(self.entries.end_of(entry.at))
    }

    /// Returns the permits that count at `now`, and the index of the first of their entries.
    pub(super) fn at(&self, now: u64) -> (u64, usize) {
        let Entries { entries, total, .. } = self.entries;
        if self.entries.are_counted_only_for(self.span) {
            return (*total, 0);
        }
        let counting = entries.iter().rev().take_while(|entry| self.end_of(entry) > now);
        counting.fold((0, entries.len()), |(total, first), entry| (total + entry.count, first - 1))
    }

    /// Returns the permits that count in the slot of `at`, and the index of the first of their entries.
    pub(super) fn in_slot(&self, at: u64) -> (u64, usize) {
        let (entries, slot) = (&self.entries.entries, self.span.slot_of(at));
        let first = entries.partition_point(|entry| {
            self.span.slot_of(entry.at) < slot || self.end_of(entry) <= at
        });
        (entries.range(first..).map(|entry| entry.count).sum(), first)
    }

    /// Returns from which moment on, `at` or later, at most `room` of these permits count.
    pub(super) fn fits_at(&self, (mut total, first): (u64, usize), room: u64, mut at: u64) -> u64 {
        for entry in self.entries.entries.range(first..) {
            if total <= room {
                break;
            }
            total -= entry.count;
            at = at.max(self.end_of(entry));
        }
        at
    }
}
