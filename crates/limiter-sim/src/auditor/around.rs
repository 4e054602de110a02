//! What is known of a key beside its admissions.

use super::{overshoot::Requests, uses::Uses};
use crate::vocabulary::Micros;

/// What is known of a key beside its admissions: what the bounds of all its limits depend on.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) uses: Uses,
    pub(crate) requests: Requests,
    /// Until when permits are reserved for later.
    pub(crate) reserved_until: Micros,
    /// Whether the policy has several limits.
    pub(crate) are_several: bool,
    /// Whether permits may be admitted that the store has charged long before, so that requests one after the other may
    /// be charged afterwards although none fits.
    pub(crate) has_leases: bool,
}

impl Around {
    pub(super) fn has_reservation(&self, at: Micros) -> bool {
        at <= self.reserved_until
    }

    /// Returns how many permits requests that are in flight together may be charged in a stretch beyond what fits, by a
    /// rate or by windows.
    ///
    /// While permits are leased, requests one after the other can be charged although none fits any more. By a rate, they
    /// are charged up to what recovers within the horizon. By windows, nothing is charged to a key that is over its limit.
    pub(super) fn overshoot(&self, from: Micros, to: Micros, is_rate: bool) -> u64 {
        match self.requests.at_once(from, to) {
            1.. if is_rate && self.has_leases => u64::MAX,
            permits => permits,
        }
    }

    pub(super) fn forget(&mut self, before: Micros) {
        self.uses.forget(before);
        self.requests.forget(before);
    }
}
