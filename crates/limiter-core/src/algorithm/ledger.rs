//! The sliding windows over dated entries: sub-windows and the exact log.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Charge, LAST, Marks, Refunded, Slots, Transition, nanos, pace::Pace, whole};
use crate::{Cost, Quota, Timestamp, Usage};

/// Permits by the time at which they were taken, as long as they count.
///
/// Time is cut into slots. Permits of one slot share an entry, which counts for a span from the
/// slot's start; a cost fits if the sum of the entries stays within the limit. In a log, a slot is a
/// nanosecond and the span is the window. With sub-windows, the span is one slot longer than the
/// window, unless the window is loose. In a paced window each slot has a ceiling of its own.
///
/// Each entry is added once and dropped once, so a check of one permit takes constant time on
/// average. A check of `n` permits may read `n` entries, and so may one on a state that a quota with
/// another window wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    limit: u64,
    /// The most permits that can be taken at once.
    largest: u64,
    header: Header,
    loose: bool,
    pace: Option<Pace>,
    /// Whether all permits are entered with the newest ones, so that the state keeps its size.
    one_entry: bool,
}

/// Which entries a state still has to keep, and how far ahead they can be. In nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Header {
    slot: u64,
    /// How long an entry counts, from the start of its slot.
    span: u64,
    horizon: u64,
}

/// A key's entries. Fresh has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// By time, each later than the one before, none with a count of zero.
    entries: VecDeque<Entry>,
    /// The sum of the counts.
    total: u64,
    /// The longest of all quotas that wrote entries since there were none.
    header: Header,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// When the last of its permits was taken. Not the start of its slot: another quota has other
    /// slots.
    at: u64,
    count: u64,
}

impl Header {
    /// Returns the start of the slot of `at`.
    const fn slot_of(&self, at: u64) -> u64 {
        at - at % self.slot
    }

    /// Returns when an entry will not count any more.
    const fn end_of(&self, entry: &Entry) -> u64 {
        self.slot_of(entry.at).saturating_add(self.span)
    }

    /// Returns the header of entries that both quotas have to find.
    fn joined(self, other: Self) -> Self {
        if self.slot == 0 || (self.slot, self.span) == (other.slot, other.span) {
            return Self { horizon: self.horizon.max(other.horizon), ..other };
        }
        // Slots of two lengths share no grid.
        Self { slot: 1, span: self.span.max(other.span), horizon: self.horizon.max(other.horizon) }
    }
}

impl Entries {
    /// Returns for how many entries memory is allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.entries.capacity()
    }

    /// Merges the two newest entries to the later date, which lowers no debt, and frees memory.
    pub(crate) fn merge_newest(&mut self) {
        if let Some(Entry { at, count }) = self.entries.pop_back() {
            let other = self.entries.pop_back().map_or(0, |other| other.count);
            self.entries.push_back(Entry { at, count: count.saturating_add(other) });
            self.entries.shrink_to_fit();
        }
    }

    /// Adds permits at a moment to the newest entry if that is later or in the same slot, or if it
    /// `joins` all, and returns the entry's time.
    fn enter(&mut self, slots: Header, at: u64, count: u64, joins: bool) -> u64 {
        self.header = self.header.joined(slots);
        let count = count.min(u64::MAX - self.total);
        self.total += count;
        match self.entries.back_mut() {
            Some(last) if joins || slots.slot_of(last.at) >= slots.slot_of(at) => {
                last.at = last.at.max(at);
                last.count += count;
                last.at
            }
            _ => {
                self.entries.push_back(Entry { at, count });
                at
            }
        }
    }
}

impl Ledger {
    /// Returns the exact log: no trailing window, wherever it starts, admits more than the quota's
    /// permits.
    #[must_use]
    pub fn sliding_log(quota: &Quota, horizon: Duration) -> Self {
        let window = whole(quota.window().as_nanos());
        Self::new(quota.permits(), horizon, window, 1)
    }

    /// Returns the sliding window by sub-windows: permits are counted by slot, and leave the sum
    /// slot by slot. Slots lie on a grid from the clock's zero.
    #[must_use]
    pub fn sub_windows(quota: &Quota, horizon: Duration, slots: Slots) -> Self {
        let number = u64::from(slots.number());
        let slot = whole(slots.length(quota.window()).as_nanos());
        let counted = if slots.is_loose() { number } else { number + 1 };
        let mut ledger = Self::new(quota.permits(), horizon, slot * counted, slot);
        ledger.loose = slots.is_loose();
        if slots.is_paced() {
            ledger.pace = Some(Pace { permits: quota.permits(), slots: number });
            ledger.largest = quota.permits().div_ceil(number);
        }
        ledger
    }

    fn new(limit: u64, horizon: Duration, span: u64, slot: u64) -> Self {
        let horizon = whole(horizon.as_nanos()).min(LAST);
        Self {
            limit,
            largest: limit,
            header: Header { slot, span, horizon },
            loose: true,
            pace: None,
            one_entry: false,
        }
    }

    /// Returns when an entry will not count any more: by this quota, or when those that wrote forget
    /// it, if that is earlier.
    fn end_of(&self, state: &Entries, entry: &Entry) -> u64 {
        self.header.end_of(entry).min(state.header.end_of(entry))
    }

    /// Returns whether only the present slot counts, by all that wrote. Its entry stays until the next
    /// one, because the clock may step back to it.
    fn keeps_last(&self, state: &Entries) -> bool {
        let Header { slot, span, .. } = self.header;
        slot == span && (state.header.slot, state.header.span) == (slot, span)
    }

    /// Returns the permits that count at `now`, and the index of the first of their entries.
    fn counting(&self, state: &Entries, now: u64) -> (u64, usize) {
        let Header { slot, span, .. } = self.header;
        if !self.keeps_last(state) && (state.header.slot, state.header.span) == (slot, span) {
            return (state.total, 0);
        }
        let newest = state.entries.iter().rev();
        let counting = newest.take_while(|entry| self.end_of(state, entry) > now);
        counting.fold((0, state.entries.len()), |(total, first), entry| {
            (total + entry.count, first - 1)
        })
    }

    /// Returns the permits that count in the slot of `at`, and the index of the first of their entries.
    fn in_slot(&self, state: &Entries, at: u64) -> (u64, usize) {
        let first = state.entries.partition_point(|entry| {
            self.header.slot_of(entry.at) < self.header.slot_of(at)
                || self.end_of(state, entry) <= at
        });
        (state.entries.range(first..).map(|entry| entry.count).sum(), first)
    }

    /// Returns from which moment on, `at` or later, at most `room` of these permits count.
    fn fits_at(
        &self,
        state: &Entries,
        (mut total, first): (u64, usize),
        room: u64,
        mut at: u64,
    ) -> u64 {
        for entry in state.entries.range(first..) {
            if total <= room {
                break;
            }
            total -= entry.count;
            at = at.max(self.end_of(state, entry));
        }
        at
    }

    /// Returns the first moment from `at` on at which a slot has room for `cost`: when enough of what
    /// another quota took in this slot is over, or in a later slot whose ceiling is high enough.
    fn fits_by_pace(&self, pace: Pace, state: &Entries, at: u64, cost: u64) -> u64 {
        let slot = at / self.header.slot;
        if let Some(room) = pace.ceiling(slot).checked_sub(cost) {
            let fits_at = self.fits_at(state, self.in_slot(state, at), room, at);
            if fits_at / self.header.slot == slot {
                return fits_at;
            }
        }
        pace.next_with(cost, slot + 1).saturating_mul(self.header.slot)
    }
}

impl Transition for Ledger {
    type State = Entries;

    fn is_possible(&self, state: &Entries, now: Timestamp) -> bool {
        let latest = nanos(now) + state.header.horizon.max(state.header.slot);
        state.entries.back().is_none_or(|last| last.at <= latest)
    }

    fn advance(&self, state: &mut Entries, now: Timestamp) {
        let is_possible = self.is_possible(state, now);
        let now = nanos(now);
        if !is_possible {
            // A loose window counts the present slot for less than a whole window.
            let at = if self.loose { self.header.slot_of(now + self.header.slot - 1) } else { now };
            let count = state.total.max(self.limit);
            // As long as the quotas count it that wrote the state.
            *state = Entries { header: state.header, ..Entries::default() };
            state.enter(self.header, at, count, false);
            state.header.horizon = state.header.horizon.max(at - now);
        }
        while let Some(first) = state.entries.front()
            && state.header.end_of(first) <= now
            && (state.entries.len() > 1 || !self.keeps_last(state))
        {
            state.total -= first.count;
            state.entries.pop_front();
        }
        let (allocated, used) = (state.entries.capacity(), state.entries.len());
        if used == 0 {
            *state = Entries::default();
        } else if allocated > 4 * used.max(4) {
            // So that a burst does not keep its memory; seldom enough to cost nothing on average.
            state.entries.shrink_to(2 * used);
        }
    }

    fn wait(&self, state: &Entries, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (now, cost) = (nanos(now), cost.get());
        if cost > self.largest {
            return None;
        }
        // Behind what was promised for later.
        let earliest =
            state.entries.back().map_or(now, |last| self.header.slot_of(last.at).max(now));
        let counting = self.counting(state, now);
        let mut fits_at = self.fits_at(state, counting, self.limit - cost, earliest);
        if let Some(pace) = self.pace {
            fits_at = self.fits_by_pace(pace, state, fits_at, cost);
        }
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    fn charge(&self, state: &mut Entries, at: Timestamp, cost: Cost) -> Marks {
        Marks::one(state.enter(self.header, nanos(at), cost.get(), self.one_entry))
    }

    fn give_back(
        &self,
        state: &mut Entries,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let taken_at = charge.marks.first();
        let index = state.entries.partition_point(|entry| entry.at < taken_at);
        let Some(entry) = state.entries.get_mut(index) else {
            return Refunded::NOTHING;
        };
        // Otherwise its own entry has expired, and this is a later one, unless it was kept.
        let is_own = self.header.slot_of(entry.at) == self.header.slot_of(taken_at);
        if !is_own || self.header.end_of(entry) <= nanos(now) {
            return Refunded::NOTHING;
        }
        let back = permits.min(charge.cost.get()).min(entry.count);
        entry.count -= back;
        state.total -= back;
        if entry.count == 0 {
            state.entries.remove(index);
        }
        if state.entries.is_empty() {
            *state = Entries::default();
        }
        Refunded::of(charge, back)
    }

    fn usage(&self, state: &Entries, now: Timestamp) -> Usage {
        let now = nanos(now);
        let last = state.entries.back();
        let end = last.map_or(now, |last| self.end_of(state, last));
        // Nothing is left of the present if a later slot has begun.
        let is_present = last.is_none_or(|last| self.header.slot_of(last.at) <= now);
        let room = self.limit.saturating_sub(self.counting(state, now).0);
        let room_in_slot = self.pace.map_or(u64::MAX, |pace| {
            pace.ceiling(now / self.header.slot).saturating_sub(self.in_slot(state, now).0)
        });
        let remaining = if is_present { room.min(room_in_slot) } else { 0 };
        Usage::new(self.largest, remaining, Duration::from_nanos(end.saturating_sub(now)))
    }

    /// A state that another quota may still count is not fresh for this one either.
    fn is_fresh(&self, state: &Entries, now: Timestamp) -> bool {
        state.entries.back().is_none_or(|last| state.header.end_of(last) <= nanos(now))
    }

    fn longest_delay(&self, _state: &Entries, _now: Timestamp) -> Duration {
        Duration::from_nanos(self.header.horizon)
    }

    /// The header of the entries keeps the longest span and horizon of all that charged them.
    fn shared(&self, _state: &mut Entries, _now: Timestamp) -> Self {
        Self { one_entry: true, ..*self }
    }
}
