//! The ceilings of a paced window's slots.

/// Permits spread over the slots of a window, so that the ceilings of two slots differ by at most
/// one and those of a whole window sum to all permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    pub(super) permits: u64,
    pub(super) slots: u64,
}

impl Pace {
    /// Returns the ceiling of the slot with this number since the clock's zero.
    pub(super) fn ceiling(self, slot: u64) -> u64 {
        let slot = slot % self.slots;
        self.of_first(slot + 1) - self.of_first(slot)
    }

    /// Returns the first slot from `slot` on whose ceiling is at least `cost`.
    pub(super) fn next_with(self, cost: u64, slot: u64) -> u64 {
        let (share, rest) = (self.permits / self.slots, self.permits % self.slots);
        if cost <= share {
            return slot;
        }
        // The slots with one permit more are those in which the rest, spread evenly over the
        // window, reaches the next whole number.
        let (window, slot) = (slot - slot % self.slots, u128::from(slot % self.slots));
        let (slots, rest) = (u128::from(self.slots), u128::from(rest.max(1)));
        let next = (slot * rest / slots + 1) * slots;
        window.saturating_add(super::whole(next.div_ceil(rest) - 1))
    }

    /// Returns the permits of the first `slots` of a window together.
    fn of_first(self, slots: u64) -> u64 {
        super::whole(u128::from(self.permits) * u128::from(slots) / u128::from(self.slots))
    }
}
