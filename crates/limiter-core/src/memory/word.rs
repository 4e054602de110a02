//! One key's debt in one 64-bit word, changed by compare-and-swap.

use super::scales::Numbered;
use crate::{
    Cost, Decision, Timestamp,
    algorithm::{Charge, Marks, State, Tat, Transition},
    sync::{AtomicU64, Ordering, yield_now},
};

/// A word without a debt. Any word whose debt has drained means the same.
pub(super) const EMPTY: u64 = 0;

/// The number of a word that is being claimed for another key.
pub(super) const BUSY: u64 = 255;

const NUMBER_BITS: u32 = 8;

/// What an operation does to a state at a moment: again, if the state has changed meanwhile. It keeps its
/// result, because to move it takes longer than the operation: `cargo xtask bench memory`.
pub(super) type Change<'a> = &'a mut dyn FnMut(&mut State, Timestamp);

/// A decision, and what was charged by it.
pub(super) type Outcome = (Decision, Option<Charge>);

/// When an operation takes place.
#[derive(Clone, Copy)]
pub(super) struct When<'a> {
    /// When a waiter was due, or `None` for the present.
    pub(super) at: Option<Timestamp>,
    pub(super) clock: &'a dyn Fn() -> Timestamp,
}

impl<'a> When<'a> {
    pub(super) fn now(clock: &'a dyn Fn() -> Timestamp) -> Self {
        Self { at: None, clock }
    }
}

/// Returns the number of the scale of a word.
pub(super) const fn number(word: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are the number")]
    let number = word as u8;
    number
}

/// Returns when the debt of a word is drained, in ticks.
pub(super) const fn end(word: u64) -> u64 {
    word >> NUMBER_BITS
}

/// Returns the word of a debt that ends at a tick of the number's scale.
pub(super) const fn word(end: u64, number: u8) -> u64 {
    end << NUMBER_BITS | number as u64
}

/// Replaces a word that was found, and returns whether nobody has changed it meanwhile.
#[inline]
pub(super) fn swap(cell: &AtomicU64, found: u64, new: u64) -> bool {
    // Release, so that a thread that reads the word reads its number's scale too.
    cell.compare_exchange(found, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Empties a word of a number of which no debt is left.
pub(super) fn erase(cell: &AtomicU64, erased: u8) {
    let found = cell.load(Ordering::Acquire);
    if found != BUSY && number(found) == erased {
        // If it has changed meanwhile, its number has too.
        swap(cell, found, EMPTY);
    }
}

/// The operations on a word.
impl Numbered {
    /// Decides on a cost that fits now or not, in the common case: the word is `mine`, its debt is
    /// the own quota's and possible, and nobody changes it meanwhile. Returns when the debt ends
    /// afterwards and whether the cost was charged, or `None` in any other case.
    ///
    /// Apart from [`update`](Self::update), and with nothing returned through memory, because that
    /// halves the time of a check: `cargo xtask bench memory`.
    #[inline(always)]
    pub(super) fn check(
        &self,
        cell: &AtomicU64,
        mine: impl Fn() -> bool,
        now: Timestamp,
        cost: Option<Cost>,
    ) -> Option<(u64, bool)> {
        let found = cell.load(Ordering::Acquire);
        let is_own = number(found) == self.number || found == EMPTY;
        if !is_own || !mine() {
            return None;
        }
        let checked = self.gcra.check(end(found), now, cost)?;
        let is_left = !checked.1 || swap(cell, found, word(checked.0, self.number));
        is_left.then_some(checked)
    }

    /// Returns the outcome of a charge at `at` after which an own debt ends at `end`.
    #[inline(always)]
    pub(super) fn outcome(&self, end: u64, at: Timestamp, cost: Cost) -> Outcome {
        let decision = self.gcra.decision((end, true), at, cost);
        (decision, Some(Charge { at, cost, marks: Marks::one(end) }))
    }

    /// Changes a word, again until nobody else has changed it meanwhile.
    pub(super) fn update(&self, cell: &AtomicU64, when: When<'_>, change: Change<'_>) {
        while !self.try_update(cell, cell.load(Ordering::Acquire), when, change) {}
    }

    /// Changes a word that was found, and returns whether nobody else has changed it meanwhile.
    pub(super) fn try_update(
        &self,
        cell: &AtomicU64,
        found: u64,
        when: When<'_>,
        change: Change<'_>,
    ) -> bool {
        if found == BUSY {
            yield_now();
            return false;
        }
        let new = self.changed(found, when, change);
        new == found || swap(cell, found, new)
    }

    /// Returns a word after a change, or as it is if the state is the same.
    ///
    /// An impossible debt is replaced by a full one, also if the change does nothing. No word ends
    /// before now that was not found so: a stalled swap may still expect a word from before a claim.
    pub(super) fn changed(&self, found: u64, when: When<'_>, change: Change<'_>) -> u64 {
        let before = self.tat(found);
        let (mut tat, mut now) = (before, when.at.unwrap_or_else(when.clock));
        if !self.gcra.is_possible(&before, now) {
            // Another operation may have been later than the clock was read.
            now = (when.clock)();
            self.gcra.advance(&mut tat, now);
        }
        let mut state = State::Gcra(tat);
        change(&mut state, now);
        match state {
            State::Gcra(tat) if tat == before => found,
            State::Gcra(tat) if tat.scale == before.scale => word(tat.at, number(found)),
            State::Gcra(tat) => word(tat.at, self.number),
            _ => word(self.gcra.scale().ticks_at(now), self.number),
        }
    }

    /// Replaces an impossible debt, from before a step back of the clock, by a full one: its key may
    /// never come back, and keys without a slot may all be refused.
    pub(super) fn repair(&self, cell: &AtomicU64, when: When<'_>) {
        let found = cell.load(Ordering::Acquire);
        if found != EMPTY {
            // If it changes meanwhile, another request has replaced it.
            self.try_update(cell, found, When::now(when.clock), &mut |_, _| ());
        }
    }

    /// Returns a word, or `EMPTY` if its debt has drained before `now`. At that very tick, it has not.
    pub(super) fn undrained(&self, found: u64, now: Timestamp) -> u64 {
        let present = self.scales.get(number(found)).ticks_at(now);
        if end(found) < present { EMPTY } else { found }
    }

    /// Returns from when on the debt of a word has drained, in ticks of this quota.
    pub(super) fn free_since(&self, found: u64) -> u64 {
        match number(found) {
            _ if found == EMPTY => 0,
            number if number == self.number => end(found) + 1,
            number => {
                let since = self.scales.get(number).nanos_at(end(found) + 1);
                self.gcra.scale().ticks_rounded_up(since)
            }
        }
    }

    /// Returns the state of a word.
    pub(super) fn tat(&self, word: u64) -> Tat {
        let is_own = number(word) == self.number;
        let scale = if is_own { *self.gcra.scale() } else { self.scales.get(number(word)) };
        Tat { at: end(word), scale }
    }
}
