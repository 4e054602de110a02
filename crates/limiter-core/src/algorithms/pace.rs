//! The ceilings of a paced window's slots.

use super::entries::{Entries, Span};
use crate::ticks::whole;

/// Permits spread over the slots of a window, so that the ceilings of two slots differ by at most
/// one and those of a whole window sum to all permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    pub(super) permits: u64,
    pub(super) slots: u64,
}

impl Pace {
    /// Returns how many permits the slot of `now` has left.
    pub(super) fn room(self, entries: &Entries, span: Span, now: u64) -> u64 {
        self.ceiling(now / span.slot).saturating_sub(entries.in_slot(span, now).0)
    }

    /// Returns the first moment from `at` on at which a slot has room for `cost`: this one, or a later one whose ceiling is
    /// high enough.
    pub(super) fn fits_at(self, entries: &Entries, span: Span, at: u64, cost: u64) -> u64 {
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
