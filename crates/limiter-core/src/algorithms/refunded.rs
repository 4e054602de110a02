//! What transitions share.

use crate::charge::Charge;

/// What came back of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refunded {
    /// How many permits, rounded up.
    pub(crate) permits: u64,
    /// Whether the key is as if the charge had never been made.
    pub(crate) is_whole: bool,
}

impl Refunded {
    /// Returns what came back of a charge, in whole permits.
    pub(super) const fn of(charge: &Charge, permits: u64) -> Self {
        Self { permits, is_whole: permits == charge.cost.get() }
    }
}

/// Returns the most permits that may be charged for now where `counted` of a limit's permits count, and a
/// state has the count `count`: any number until the limit is overshot, and then none.
///
/// A count grows only so far that it stays below the largest one that scripts accept.
pub(super) fn most_chargeable(limit: u64, counted: u64, count: u64) -> u64 {
    const MOST_COUNTED: u64 = 100_000_000_000_000;
    match limit.checked_sub(counted) {
        Some(room) => room.max(MOST_COUNTED.saturating_sub(count)),
        None => 0,
    }
}
