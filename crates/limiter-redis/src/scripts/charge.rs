//! What a check asks of a key, and what was charged to it.

use std::time::Duration;

use limiter_core::Cost;

use super::{limit::Kind, terms::LeaseTerms};

/// Which script decides a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// That of the only limit's kind.
    Own(Kind),
    Lease,
    List,
}

/// What a check asks of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) cost: Cost,
    /// How many permits to lease, none if 0. They include the cost.
    pub(crate) wanted: u64,
    pub(crate) route: Route,
}

/// What a refund needs to know of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(super) cost: i64,
    /// When it was charged, in microseconds of Unix time by the server's clock.
    pub(super) taken_at: i64,
    /// In microseconds.
    pub(super) delay: u64,
    /// What it left in the state of each limit, from `taken_at`.
    pub(super) marks: Vec<i64>,
    /// How much later than `taken_at` a lease is charged for, in microseconds. 0 of any other charge.
    pub(super) length: u64,
}

impl Charged {
    pub(crate) const fn permits(&self) -> u64 {
        self.cost.unsigned_abs()
    }

    /// Returns for how long after its request and its delay it may be spent, if it is a lease.
    pub(crate) fn lasts(&self, terms: &LeaseTerms) -> Duration {
        terms.lasts(&self.marks, self.delay())
    }

    /// Returns how many of its permits may come back after it has ended, if it is a lease.
    pub(crate) fn come_back(&self, terms: &LeaseTerms) -> u64 {
        terms.come_back(self.permits(), &self.marks, self.delay())
    }

    pub(crate) const fn delay(&self) -> Duration {
        Duration::from_micros(self.delay)
    }
}
