//! What a process may lease of a limit.

use std::time::Duration;

use limiter_core::{Algorithm, Limit};

use super::{Gcra, limit::micros};

/// The terms of leases under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// A process asks for what it spends in half of this, a whole number of microseconds.
    pub(crate) length: Duration,
    /// How many permits recover in half of it.
    pub(crate) half: u64,
    /// What scripts are given beside the permits that are wanted: the length in ticks, or the room that is little.
    pub(super) argument: u64,
    end: End,
}

/// When a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// After its length. The store charges it for that moment, so a lease may be in the debt that a later check leaves.
    OfLength,
    /// With the window in which it was granted. Its mark is the time until then.
    OfWindow,
}

/// The shortest lease, in microseconds: in less, a call brings hardly more permits than a batch of checks.
const SHORTEST: u64 = 5_000;

impl LeaseTerms {
    /// Returns the terms of leases of `longest` at most, and a quarter of the time in which the burst recovers;
    /// `None` if that is too short, or if nothing of the algorithm is leased.
    pub(super) fn of(limit: &Limit, gcra: Option<&Gcra>, longest: Duration) -> Option<Self> {
        let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        let terms = |length, half, argument, end| {
            let terms = Self { length: Duration::from_micros(length), half, argument, end };
            (length >= SHORTEST).then_some(terms)
        };
        match limit.algorithm() {
            Algorithm::Gcra => {
                let gcra = gcra?;
                let length = longest.min(gcra.capacity() / gcra.scale / 4);
                let ticks = length * gcra.scale;
                terms(length, ticks / 2 / gcra.increment, ticks, End::OfLength)
            }
            Algorithm::FixedWindow | Algorithm::AlignedWindow | Algorithm::SlidingCounter => {
                let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
                let length = longest.min(window / 4);
                let half = u128::from(permits) * u128::from(length) / 2 / u128::from(window.max(1));
                let half = u64::try_from(half).unwrap_or(permits);
                terms(length, half, half, End::OfWindow)
            }
            // A queue spaces requests one by one, and a log has an entry for each.
            Algorithm::LeakyQueue { .. } | Algorithm::SubWindows(_) | Algorithm::SlidingLog => None,
        }
    }

    /// Returns for how long after its request a lease may be spent that left these marks.
    pub(super) fn lasts(&self, marks: &[i64]) -> Duration {
        match (self.end, marks) {
            (End::OfWindow, &[mark]) => Duration::from_micros(u64::try_from(mark).unwrap_or(0)),
            _ => self.length,
        }
    }

    /// Returns for how many microseconds leases hold permits that may be in the debt of a later check.
    pub(super) fn kept_in_debts(&self) -> u64 {
        match self.end {
            End::OfLength => micros(self.length),
            End::OfWindow => 0,
        }
    }
}
