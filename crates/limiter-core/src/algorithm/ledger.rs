//! The arithmetic that sub-windows and the exact log share: dated entries and their sum.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Algorithm, Charge, Mark};
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
    /// The sum of the counts.
    total: u64,
    /// The slot of the quota by which the entries were made.
    slot: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The start of its slot.
    at: u64,
    count: u64,
}

impl Ledger {
    pub(super) const fn new(limit: u64, slot: u64, span: u64, pace: Option<Pace>) -> Self {
        Self { limit, slot, span, pace }
    }

    const fn slot_of(&self, at: u64) -> u64 {
        at - at % self.slot
    }

    /// Returns the most permits that can be taken at once.
    const fn largest(&self) -> u64 {
        match self.pace {
            Some(pace) => pace.permits.div_ceil(pace.slots),
            None => self.limit,
        }
    }

    /// Returns how many permits fit into the slot that starts at `at`, where `taken` are taken.
    fn room_in_slot(&self, at: u64, taken: u64) -> u64 {
        self.pace.map_or(u64::MAX, |pace| pace.ceiling(at / self.slot).saturating_sub(taken))
    }
}

impl Algorithm for Ledger {
    type State = Entries;

    fn advance(&self, state: &mut Entries, now: Timestamp, promised: Timestamp) {
        let (now, latest) = (now.as_nanos(), now.max(promised).as_nanos());
        if state.slot != self.slot {
            // Of another quota: a permit was taken at the end of its entry's slot at the latest.
            let slot = state.slot;
            state.date(|at| self.slot_of(at.saturating_add(slot.max(1) - 1).min(now.max(at))));
            state.slot = self.slot;
        }
        while let Some(first) = state.entries.front()
            && now.saturating_sub(first.at) >= self.span
        {
            state.total = state.total.saturating_sub(first.count);
            state.entries.pop_front();
        }
        if state.entries.back().is_some_and(|last| last.at > latest) {
            state.date(|at| self.slot_of(at.min(latest)));
        }
    }

    fn wait(&self, state: &Entries, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (now, cost) = (now.as_nanos(), cost.get());
        if cost > self.largest() {
            return None;
        }
        let last = state.entries.back();
        // Behind what was promised for later.
        let mut fits_at = last.map_or(now, |last| last.at.max(now));
        let mut total = state.total;
        for entry in &state.entries {
            if total <= self.limit - cost {
                break;
            }
            total = total.saturating_sub(entry.count);
            fits_at = fits_at.max(entry.at.saturating_add(self.span));
        }
        if let Some(pace) = self.pace {
            let slot = self.slot_of(fits_at);
            let taken = last.filter(|last| last.at == slot).map_or(0, |last| last.count);
            if self.room_in_slot(slot, taken) < cost {
                let next = pace.next_with(cost, slot / self.slot + 1);
                fits_at = next.saturating_mul(self.slot);
            }
        }
        Some(Duration::from_nanos(fits_at - now))
    }

    fn charge(&self, state: &mut Entries, at: Timestamp, cost: Cost) -> Mark {
        let slot = self.slot_of(at.as_nanos());
        state.slot = self.slot;
        state.total = state.total.saturating_add(cost.get());
        match state.entries.back_mut() {
            // Time goes forward: an older moment is raised to the last entry's.
            Some(last) if last.at >= slot => last.count = last.count.saturating_add(cost.get()),
            _ => state.entries.push_back(Entry { at: slot, count: cost.get() }),
        }
        Mark::one(state.entries.back().map_or(slot, |last| last.at))
    }

    fn refund(&self, state: &mut Entries, _now: Timestamp, charge: &Charge, permits: u64) {
        let permits = permits.min(charge.cost.get());
        let slot = charge.mark.word();
        let Ok(index) = state.entries.binary_search_by_key(&slot, |entry| entry.at) else {
            return;
        };
        let Some(entry) = state.entries.get_mut(index) else {
            return;
        };
        let permits = permits.min(entry.count);
        entry.count -= permits;
        state.total = state.total.saturating_sub(permits);
        if entry.count == 0 {
            state.entries.remove(index);
        }
    }

    fn usage(&self, state: &Entries, now: Timestamp) -> Usage {
        let now = now.as_nanos();
        let last = state.entries.back();
        let end = last.map_or(now, |last| last.at.saturating_add(self.span));
        let slot = self.slot_of(last.map_or(now, |last| last.at.max(now)));
        let taken = last.filter(|last| last.at == slot).map_or(0, |last| last.count);
        let room = self.limit.saturating_sub(state.total).min(self.room_in_slot(slot, taken));
        Usage::new(self.largest(), room, Duration::from_nanos(end.saturating_sub(now)))
    }
}

impl Entries {
    /// Gives each entry another time, in the same order, and joins those that get the same.
    fn date(&mut self, new: impl Fn(u64) -> u64) {
        let mut dated = VecDeque::<Entry>::with_capacity(self.entries.len());
        for entry in &self.entries {
            let at = new(entry.at);
            match dated.back_mut() {
                Some(last) if last.at >= at => last.count = last.count.saturating_add(entry.count),
                _ => dated.push_back(Entry { at, count: entry.count }),
            }
        }
        self.entries = dated;
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
