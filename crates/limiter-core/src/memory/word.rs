//! One key's debt in one 64-bit word, changed by compare-and-swap.

use super::scales::Numbered;
use crate::{
    Cost, Decision, Timestamp,
    algorithm::{Charge, Marks, Tat, Transition},
    sync::{AtomicU64, Ordering, yield_now},
};

/// A word without a debt. Any word whose debt has drained means the same.
pub(super) const EMPTY: u64 = 0;

/// The number of a word that is being claimed for another key.
pub(super) const BUSY: u64 = 255;

const NUMBER_BITS: u32 = 8;

/// Reads the clock of a limiter, as its states count time.
pub(super) type Now<'a> = &'a dyn Fn() -> Timestamp;

/// A decision, and what was charged by it.
pub(super) type Outcome = (Decision, Option<Charge>);

/// Returns the number of the scale of a word.
pub(super) const fn number(word: u64) -> u8 {
    let [number, ..] = word.to_le_bytes();
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

/// The operations on a word.
impl Numbered {
    /// Returns the outcome of a charge at `at` after which an own debt ends at `end`.
    #[inline(always)]
    pub(super) fn outcome(&self, end: u64, at: Timestamp, cost: Cost) -> Outcome {
        let decision = self.gcra.decision((end, true), at, cost);
        (decision, Some(Charge { at, cost, marks: Marks::one(end) }))
    }

    /// Changes a word that was found, unless somebody else has changed it meanwhile.
    pub(super) fn try_update<R>(
        &self,
        cell: &AtomicU64,
        found: u64,
        clock: Now<'_>,
        change: impl FnOnce(&mut Tat, Timestamp) -> R,
    ) -> Option<R> {
        if found == BUSY {
            yield_now();
            return None;
        }
        let (new, result) = self.changed(found, clock(), change);
        let is_current = if new == found {
            cell.load(Ordering::Acquire) == found
        } else {
            swap(cell, found, new)
        };
        is_current.then_some(result)
    }

    /// Returns a word after a change, or as it is if the debt is the same. An impossible debt is
    /// replaced by a full one, also if the change does nothing.
    pub(super) fn changed<R>(
        &self,
        found: u64,
        now: Timestamp,
        change: impl FnOnce(&mut Tat, Timestamp) -> R,
    ) -> (u64, R) {
        let before = self.tat(found);
        let mut tat = before;
        self.gcra.advance(&mut tat, now);
        let result = change(&mut tat, now);
        let new = match tat {
            _ if tat == before => found,
            Tat { at, scale } if scale == before.scale => word(at, number(found)),
            Tat { at, .. } => word(at, self.number),
        };
        (new, result)
    }

    /// Replaces an impossible debt, from before a step back of the clock, by a full one: its key may
    /// never come back, and keys without a slot may all be refused.
    pub(super) fn repair(&self, cell: &AtomicU64, clock: Now<'_>) {
        let found = cell.load(Ordering::Acquire);
        if found != EMPTY {
            // If it changes meanwhile, another request has replaced it.
            let _ = self.try_update(cell, found, clock, |_, _| ());
        }
    }

    /// Returns from when on the debt of a word has drained, in ticks of this quota. At the very tick
    /// at which it ends, it has not.
    pub(super) fn free_since(&self, found: u64) -> u64 {
        match number(found) {
            _ if found == EMPTY => 0,
            _ if found == BUSY => u64::MAX,
            number if number == self.number => end(found) + 1,
            number => {
                let since = self.scales.get(number).nanos_at(end(found) + 1);
                self.gcra.scale.ticks_rounded_up(since)
            }
        }
    }

    /// Returns the state of a word.
    pub(super) fn tat(&self, word: u64) -> Tat {
        let is_own = number(word) == self.number;
        let scale = if is_own { self.gcra.scale } else { self.scales.get(number(word)) };
        Tat { at: end(word), scale }
    }
}
