//! The sliding windows over dated entries: sub-windows and the exact log.

use core::time::Duration;

use super::{
    entries::{Entries, Entry, Span},
    refunded::{Refunded, most_chargeable},
};
use crate::{
    Cost, Quota, Slots, Timestamp, Usage,
    charge::Charge,
    ticks::{LAST, nanos, whole},
};

/// Permits by the time at which they were taken, as long as they count.
///
/// Time is cut into slots. Permits of one slot share an entry, which counts for a span from the
/// slot's start; a cost fits if the sum of the entries stays within the limit. In a log, a slot is a
/// nanosecond and the span is the window. With sub-windows, the span is one slot longer than the
/// window, unless the window is loose. In a paced window each slot has a ceiling of its own.
///
/// Each entry is added once and dropped once, so a check of one permit takes constant time on
/// average. A check of `n` permits may read `n` entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    limit: u64,
    /// The most permits that can be taken at once.
    largest: u64,
    span: Span,
    /// How far ahead of now permits may be promised, in nanoseconds.
    horizon: u64,
    loose: bool,
    pace: Option<Pace>,
}

impl Ledger {
    /// Returns the exact log: no trailing window, wherever it starts, admits more than the quota's
    /// permits.
    #[must_use]
    pub fn sliding_log(quota: &Quota, horizon: Duration) -> Self {
        let length = whole(quota.window().as_nanos());
        Self::of_span(quota.permits(), Span { slot: 1, length }, horizon)
    }

    /// Returns the sliding window by sub-windows: permits are counted by slot, and leave the sum
    /// slot by slot. Slots lie on a grid from the clock's zero.
    #[must_use]
    pub fn sub_windows(quota: &Quota, horizon: Duration, slots: Slots) -> Self {
        let number = u64::from(slots.number());
        let slot = whole(slots.length(quota.window()).as_nanos());
        let counted = if slots.is_loose() { number } else { number + 1 };
        let span = Span { slot, length: slot * counted };
        let ledger = Self::of_span(quota.permits(), span, horizon);
        let pace = slots.is_paced().then_some(Pace { permits: quota.permits(), slots: number });
        let largest = pace.map_or(ledger.limit, |pace| ledger.limit.div_ceil(pace.slots));
        Self { loose: slots.is_loose(), largest, pace, ..ledger }
    }

    /// Returns the sliding window whose entries count for `span`, which is the window alone.
    fn of_span(limit: u64, span: Span, horizon: Duration) -> Self {
        let horizon = whole(horizon.as_nanos()).min(LAST - span.length);
        Self { limit, largest: limit, span, horizon, loose: true, pace: None }
    }

    /// Returns the index of the entry of a charge, if it counts at `now`.
    fn entry_of(&self, state: &Entries, now: Timestamp, charge: &Charge) -> Option<usize> {
        let taken_at = charge.mark;
        let index = state.entries.partition_point(|entry| entry.at < taken_at);
        // Otherwise its own entry has expired, and this is a later one.
        let counts = |entry: &Entry| {
            let is_own = self.span.slot_of(entry.at) == self.span.slot_of(taken_at);
            is_own && self.span.end_of(entry.at) > nanos(now)
        };
        state.entries.get(index).is_some_and(counts).then_some(index)
    }

    /// Returns whether no later slot than that of `now` has begun: otherwise nothing is left of the present.
    fn is_present(&self, state: &Entries, now: u64) -> bool {
        state.entries.back().is_none_or(|last| self.span.slot_of(last.at) <= now)
    }

    /// Returns whether each permit has an entry of its own, so that a state can be large.
    pub(super) const fn is_log(&self) -> bool {
        self.span.slot == 1 && self.pace.is_none()
    }

    /// Returns a copy of the state that gives the same waits for the next `permits` that are charged or asked for.
    ///
    /// Of an exact log, the newest entries that fit into the limit beside these permits are merged. No wait depends
    /// on their dates: all of these permits fit as soon as the older entries have left.
    pub(super) fn copy_for(&self, state: &Entries, permits: u64) -> Entries {
        state.copy_merging_newest(if self.is_log() {
            self.limit.saturating_sub(permits)
        } else {
            0
        })
    }

    pub(super) fn is_possible(&self, state: &Entries, now: Timestamp) -> bool {
        let latest = nanos(now).saturating_add(self.horizon.max(self.span.slot));
        state.entries.back().is_none_or(|last| last.at <= latest)
    }

    pub(super) fn advance(&self, state: &mut Entries, now: Timestamp) -> bool {
        let is_possible = self.is_possible(state, now);
        let now = nanos(now);
        if !is_possible {
            // A loose window counts the present slot for less than a whole window.
            let at = if self.loose { self.span.slot_of(now + self.span.slot - 1) } else { now };
            let count = state.total.max(self.limit);
            state.clear();
            state.enter(self.span, now, at, count);
        }
        state.drop_ended(self.span, now);
        !is_possible
    }

    pub(super) fn wait(&self, state: &Entries, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (now, cost) = (nanos(now), cost.get());
        if cost > self.largest {
            return None;
        }
        // Behind what was promised for later.
        let earliest = state.entries.back().map_or(now, |last| self.span.slot_of(last.at).max(now));
        let counted = state.counted(self.span, now);
        let fits_at = state.fits_at(self.span, counted, self.limit - cost, earliest);
        let fits_at =
            self.pace.map_or(fits_at, |pace| pace.fits_at(state, self.span, fits_at, cost));
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    pub(super) fn charge(
        &self,
        state: &mut Entries,
        now: Timestamp,
        at: Timestamp,
        cost: Cost,
    ) -> u64 {
        state.enter(self.span, nanos(now), nanos(at), cost.get())
    }

    pub(super) fn most_chargeable(&self, state: &Entries, now: Timestamp) -> u64 {
        let now = nanos(now);
        if !self.is_present(state, now) {
            return 0;
        }
        most_chargeable(self.limit, state.counted(self.span, now).0, state.total)
    }

    pub(super) fn give_back(
        &self,
        state: &mut Entries,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let index = self.entry_of(state, now, charge);
        let back = index.map_or(0, |index| state.take_from(index, permits.min(charge.cost.get())));
        Refunded::of(charge, back)
    }

    pub(super) fn usage(&self, state: &Entries, now: Timestamp) -> Usage {
        let at = nanos(now);
        let room = self.limit.saturating_sub(state.counted(self.span, at).0);
        let room_in_slot = self.pace.map_or(u64::MAX, |pace| pace.room(state, self.span, at));
        let remaining = if self.is_present(state, at) { room.min(room_in_slot) } else { 0 };
        Usage::new(self.largest, remaining, self.fresh_after(state, now))
    }

    pub(super) fn reach(&self) -> Duration {
        Duration::from_nanos(self.horizon.max(self.span.slot) + self.span.length)
    }

    pub(super) fn fresh_after(&self, state: &Entries, now: Timestamp) -> Duration {
        let end = state.entries.back().map_or(0, |last| self.span.end_of(last.at));
        Duration::from_nanos(end.saturating_sub(nanos(now)))
    }

    pub(super) fn horizon(&self) -> Duration {
        Duration::from_nanos(self.horizon)
    }
}

/// Permits spread over the slots of a window, so that the ceilings of two slots differ by at most
/// one and those of a whole window sum to all permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pace {
    permits: u64,
    slots: u64,
}

impl Pace {
    /// Returns how many permits the slot of `now` has left.
    fn room(self, entries: &Entries, span: Span, now: u64) -> u64 {
        self.ceiling(now / span.slot).saturating_sub(entries.in_slot(span, now).0)
    }

    /// Returns the first moment from `at` on at which a slot has room for `cost`: this one, or a later one whose ceiling is
    /// high enough.
    fn fits_at(self, entries: &Entries, span: Span, at: u64, cost: u64) -> u64 {
        let slot = at / span.slot;
        if entries.in_slot(span, at).0.saturating_add(cost) <= self.ceiling(slot) {
            return at;
        }
        self.next_with(cost, slot + 1).saturating_mul(span.slot)
    }

    /// Returns the ceiling of the slot with this number since the clock's zero.
    fn ceiling(self, slot: u64) -> u64 {
        let slot = slot % self.slots;
        self.of_first(slot + 1) - self.of_first(slot)
    }

    /// Returns the first slot from `slot` on whose ceiling is at least `cost`.
    fn next_with(self, cost: u64, slot: u64) -> u64 {
        let (share, rest) = (self.permits / self.slots, self.permits % self.slots);
        if cost <= share {
            return slot;
        }
        // The slots with one permit more are those in which the rest, spread evenly over the
        // window, reaches the next whole number.
        let (window, slot) = (slot - slot % self.slots, u128::from(slot % self.slots));
        let (slots, rest) = (u128::from(self.slots), u128::from(rest.max(1)));
        let next = (slot * rest / slots + 1) * slots;
        window.saturating_add(whole(next.div_ceil(rest) - 1))
    }

    /// Returns the permits of the first `slots` of a window together.
    fn of_first(self, slots: u64) -> u64 {
        whole(u128::from(self.permits) * u128::from(slots) / u128::from(self.slots))
    }
}
