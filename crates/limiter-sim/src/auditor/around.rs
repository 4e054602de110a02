//! What is known of a key beside its admissions.

use super::{overshoot::Requests, uses::Uses};
use crate::vocabulary::Micros;

/// What is known of a key beside its admissions: what the bounds of all its limits depend on.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) uses: Uses,
    pub(crate) requests: Requests,
    pub(crate) reservations: Reservations,
    /// Whether the policy has several limits.
    pub(crate) are_several: bool,
    /// Whether permits may be admitted that the store has charged long before, so that requests one after the other may
    /// be charged afterwards although none fits.
    pub(crate) has_leases: bool,
}

impl Around {
    /// Returns whether another quota was in use in a stretch.
    pub(super) fn has_others(&self, quota: usize, from: Micros, to: Micros) -> bool {
        self.uses.within(from, to) & !(1 << quota) != 0
    }

    pub(super) fn has_reservation(&self, at: Micros) -> bool {
        self.reservations.0.iter().any(|reserved| at <= reserved.to)
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

    /// Returns how many permits that count in a stretch were reserved before another quota may have charged the key.
    pub(super) fn overtaken(&self, from: Micros, to: Micros) -> u64 {
        let is_overtaken = |it: &&Reserved| {
            from <= it.to && it.from <= to && self.has_others(it.quota, it.from, it.to)
        };
        self.reservations.0.iter().filter(is_overtaken).map(|it| it.permits).sum()
    }

    pub(super) fn forget(&mut self, before: Micros) {
        self.uses.forget(before);
        self.requests.forget(before);
        self.reservations.0.retain(|reserved| reserved.to >= before);
    }
}

/// Permits that were reserved for later, from when they were asked for until they count.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    quota: usize,
    from: Micros,
    to: Micros,
    permits: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Reservations(Vec<Reserved>);

impl Reservations {
    pub(crate) fn add(&mut self, quota: usize, (from, to): (Micros, Micros), permits: u64) {
        self.0.push(Reserved { quota, from, to, permits });
    }
}
