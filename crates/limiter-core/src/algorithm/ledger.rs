//! The arithmetic that sub-windows and the exact log share: dated entries and their sum.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Algorithm, Charge, Mark, nanos};
use crate::{Cost, Timestamp, Usage};

/// Permits by the time at which they were taken, as long as they count.
///
/// Time is cut into slots. Permits of one slot share an entry, which counts for a span from the
/// slot's start on; a cost fits if the sum of all entries stays within the limit. In a log a slot
/// is a nanosecond and the span is the window; with sub-windows the span covers one slot more than
/// the window has, unless it is loose. Where the window is paced, each slot has a ceiling of its
/// own too.
///
/// Each entry is added once and dropped once, so that a decision on one permit takes the same time
/// however many there are; one on `n` permits may look at `n` entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    limit: u64,
    /// In nanoseconds, more than zero, like all times here.
    slot: u64,
    /// How long an entry counts: a multiple of the slot.
    span: u64,
    /// Whether that is the window alone, not a slot more.
    loose: bool,
    pace: Option<Pace>,
}

/// Ceilings of slots: so many permits spread over so many slots that no slot's share differs from
/// another's by more than one, and that those of a window sum to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) permits: u64,
    pub(super) slots: u64,
}

/// A key's entries. Fresh has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// By time, each later than the one before, none with a count of zero.
    entries: VecDeque<Entry>,
    /// The sum of the counts. What was promised for later may be the limit several times over.
    total: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// When the last of its permits was taken. Not the start of its slot: another quota has other
    /// slots.
    at: u64,
    count: u64,
}

impl Entries {
    /// Returns the entries with their moments, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.entries.iter().map(|entry| (Timestamp::from_nanos(entry.at), entry.count))
    }
}

/// For a store that keeps states in a form of its own: moments in their order, and counts above
/// zero.
impl FromIterator<(Timestamp, u64)> for Entries {
    fn from_iter<I: IntoIterator<Item = (Timestamp, u64)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(at, count)| Entry { at: at.as_nanos(), count });
        let entries: VecDeque<_> = entries.collect();
        let total = entries.iter().map(|entry| u128::from(entry.count)).sum();
        Self { entries, total }
    }
}

impl Ledger {
    /// Returns the permits of a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of a slot.
    #[must_use]
    pub const fn slot(&self) -> Duration {
        Duration::from_nanos(self.slot)
    }

    /// Returns how long an entry counts from its slot's start on.
    #[must_use]
    pub const fn span(&self) -> Duration {
        Duration::from_nanos(self.span)
    }

    /// Returns the ledger of a window of whole slots.
    pub(super) const fn new(limit: u64, window: u64, slot: u64) -> Self {
        Self { limit, slot, span: window, loose: true, pace: None }
    }

    /// Counts each permit for the present slot and the window before it.
    pub(super) const fn strict(self) -> Self {
        Self { span: self.span + self.slot, loose: false, ..self }
    }

    pub(super) const fn paced(self, pace: Pace) -> Self {
        Self { pace: Some(pace), ..self }
    }

    const fn slot_of(&self, at: u64) -> u64 {
        at - at % self.slot
    }

    /// Returns the most permits that can be taken at once.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        match self.pace {
            Some(pace) => pace.permits.div_ceil(pace.slots),
            None => self.limit,
        }
    }

    /// Returns whether an entry does not count any more.
    const fn is_over(&self, entry: &Entry, now: u64) -> bool {
        now.saturating_sub(self.slot_of(entry.at)) >= self.span
    }

    /// Returns when an entry will not count any more.
    const fn end_of(&self, entry: &Entry) -> u64 {
        self.slot_of(entry.at).saturating_add(self.span)
    }

    /// Returns how many permits fit into the sum.
    fn room(&self, state: &Entries) -> u64 {
        u64::try_from(u128::from(self.limit).saturating_sub(state.total)).unwrap_or(u64::MAX)
    }

    /// Returns how many permits are above what fits into the sum.
    fn surplus(&self, state: &Entries) -> u64 {
        u64::try_from(state.total.saturating_sub(self.limit.into())).unwrap_or(u64::MAX)
    }

    /// Returns how many permits fit into the slot of `at`, as far as it has a ceiling.
    fn room_in_slot(&self, state: &Entries, at: u64) -> u64 {
        let Some(pace) = self.pace else {
            return u64::MAX;
        };
        let entries = state.entries.iter().rev();
        let own = entries.take_while(|entry| self.slot_of(entry.at) >= self.slot_of(at));
        let taken = own.map(|entry| entry.count).fold(0, u64::saturating_add);
        pace.ceiling(at / self.slot).saturating_sub(taken)
    }

    /// Adds permits at a moment, raised to that of the last entry, and returns the moment.
    fn enter(&self, state: &mut Entries, at: u64, count: u64) -> u64 {
        match state.entries.back_mut() {
            Some(last) if self.slot_of(last.at) >= self.slot_of(at) => {
                let count = count.min(u64::MAX - last.count);
                state.total += u128::from(count);
                last.at = last.at.max(at);
                last.count += count;
                last.at
            }
            _ => {
                state.total += u128::from(count);
                state.entries.push_back(Entry { at, count });
                at
            }
        }
    }
}

impl Algorithm for Ledger {
    type State = Entries;

    fn advance(&self, state: &mut Entries, now: Timestamp, promised: Timestamp) {
        let (now, latest) = (nanos(now), nanos(now.max(promised)));
        while let Some(first) = state.entries.front()
            && self.is_over(first, now)
        {
            state.total -= u128::from(first.count);
            state.entries.pop_front();
        }
        // From before a step back. Such permits count for a whole window from now on: in a loose
        // one, those of the present slot would not.
        let latest = if self.loose { latest.saturating_add(self.slot - 1) } else { latest };
        let mut later = 0_u64;
        while let Some(last) = state.entries.back()
            && self.slot_of(last.at) > latest
        {
            later = later.saturating_add(last.count);
            state.total -= u128::from(last.count);
            state.entries.pop_back();
        }
        if later > 0 {
            self.enter(state, self.slot_of(latest), later);
        }
    }

    fn wait(&self, state: &Entries, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (now, cost) = (nanos(now), cost.get());
        if cost > self.largest() {
            return None;
        }
        // Behind what was promised for later.
        let mut fits_at = state.entries.back().map_or(now, |last| self.slot_of(last.at).max(now));
        let mut total = state.total;
        for entry in &state.entries {
            if total <= u128::from(self.limit - cost) {
                break;
            }
            total -= u128::from(entry.count);
            fits_at = fits_at.max(self.end_of(entry));
        }
        if let Some(pace) = self.pace
            && self.room_in_slot(state, fits_at) < cost
        {
            let next = pace.next_with(cost, fits_at / self.slot + 1);
            fits_at = next.saturating_mul(self.slot);
        }
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    fn charge(&self, state: &mut Entries, at: Timestamp, cost: Cost) -> Mark {
        Mark::one(self.enter(state, nanos(at), cost.get()))
    }

    fn refund(&self, state: &mut Entries, _now: Timestamp, charge: &Charge, permits: u64) -> bool {
        let taken_at = charge.mark.word();
        let index = state.entries.partition_point(|entry| entry.at < taken_at);
        let Some(entry) = state.entries.get_mut(index) else {
            return false;
        };
        // Else its own entry is over, and this is a later one.
        if self.slot_of(entry.at) == self.slot_of(taken_at) {
            let permits = permits.min(charge.cost.get()).min(entry.count);
            entry.count -= permits;
            state.total -= u128::from(permits);
            if entry.count == 0 {
                state.entries.remove(index);
            }
        }
        false
    }

    /// The newest permits, as many as there are at all.
    fn owe(&self, state: &mut Entries, at: Timestamp, cost: Cost) {
        self.enter(state, nanos(at), cost.get().min(self.limit));
        while let surplus @ 1.. = self.surplus(state)
            && let Some(first) = state.entries.front_mut()
        {
            let surplus = surplus.min(first.count);
            first.count -= surplus;
            state.total -= u128::from(surplus);
            if first.count == 0 {
                state.entries.pop_front();
            }
        }
    }

    /// Entries know when their permits were taken; which of them still count shows by itself.
    fn adopt(&self, _state: &mut Entries, _from: &Self, _now: Timestamp) {}

    fn usage(&self, state: &Entries, now: Timestamp) -> Usage {
        let now = nanos(now);
        let last = state.entries.back();
        let end = last.map_or(now, |last| self.end_of(last));
        // Nothing is left of the present where a later slot has begun.
        let is_present = last.is_none_or(|last| self.slot_of(last.at) <= now);
        let room = self.room(state).min(self.room_in_slot(state, now));
        let remaining = if is_present { room } else { 0 };
        Usage::new(self.largest(), remaining, Duration::from_nanos(end.saturating_sub(now)))
    }
}

impl Pace {
    /// Returns the ceiling of the slot with this number since the start of the clock.
    fn ceiling(self, slot: u64) -> u64 {
        let slot = slot % self.slots;
        self.up_to(slot + 1) - self.up_to(slot)
    }

    /// Returns the first slot from `slot` on whose ceiling is at least `cost`.
    fn next_with(self, cost: u64, slot: u64) -> u64 {
        let (share, rest) = (self.permits / self.slots, self.permits % self.slots);
        if cost <= share {
            return slot;
        }
        // One of the slots with one permit more: of a window's, the first in which the rest,
        // spread evenly, reaches the next whole number.
        let (window, slot) = (slot - slot % self.slots, u128::from(slot % self.slots));
        let (slots, rest) = (u128::from(self.slots), u128::from(rest.max(1)));
        let next = (slot * rest / slots + 1) * slots;
        window.saturating_add(u64::try_from(next.div_ceil(rest) - 1).unwrap_or(u64::MAX))
    }

    /// Returns how many permits the first `slots` of a window have together.
    fn up_to(self, slots: u64) -> u64 {
        let permits = u128::from(self.permits) * u128::from(slots) / u128::from(self.slots);
        u64::try_from(permits).unwrap_or(u64::MAX)
    }
}
