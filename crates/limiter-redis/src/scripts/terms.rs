//! What a process may lease of a limit.

use std::time::Duration;

use limiter_core::{Algorithm, Limit};

use super::limit::{Gcra, micros};

/// The terms of leases under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// A process asks for what it spends in half of this, a whole number of microseconds.
    pub(crate) length: Duration,
    /// How many permits recover in half of it.
    pub(crate) half: u64,
    /// What the script is given beside the permits that are wanted: the length in ticks, or the room that is little.
    pub(crate) term: u64,
    end: End,
}

/// When a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// After its length. The store charges it for that moment, so a lease may be in the debt that a later check leaves.
    OfLength,
    /// With the window in which it was granted, if that ends before its length. Its mark is the time until then.
    OfWindow,
}

/// The longest lease, in microseconds. What a process does not spend in that time is lost to others for as long.
const LONGEST: u64 = 1_000_000;

/// The shortest lease, in microseconds: in less, a call brings hardly more permits than a batch of checks, and much of them
/// is not spent in time.
const SHORTEST: u64 = 25_000;

/// The fewest permits in half of a lease, for the same reason.
const FEWEST: u64 = 8;

impl LeaseTerms {
    /// Returns the terms of leases of a second, or of a quarter of the window or of the time in which the burst
    /// recovers; `None` if that is too short, brings too few permits, or if nothing of the algorithm is leased.
    pub(super) fn of(limit: &Limit, gcra: Option<&Gcra>) -> Option<Self> {
        let terms = match limit.algorithm() {
            Algorithm::Gcra => {
                let gcra = gcra?;
                let length = LONGEST.min(gcra.capacity() / gcra.scale / 4);
                let ticks = length * gcra.scale;
                let (half, end) = (ticks / 2 / gcra.increment, End::OfLength);
                Self { length: Duration::from_micros(length), half, term: ticks, end }
            }
            Algorithm::FixedWindow | Algorithm::AlignedWindow | Algorithm::SlidingCounter => {
                let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
                let length = LONGEST.min(window / 4);
                let half = u128::from(permits) * u128::from(length) / 2 / u128::from(window.max(1));
                let half = u64::try_from(half).unwrap_or(permits);
                let end = End::OfWindow;
                Self { length: Duration::from_micros(length), half, term: half, end }
            }
            // A queue spaces requests one by one, and a log has an entry for each.
            Algorithm::LeakyQueue { .. } | Algorithm::SubWindows(_) | Algorithm::SlidingLog => {
                return None;
            }
        };
        let is_worth_it = micros(terms.length) >= SHORTEST && terms.half >= FEWEST;
        is_worth_it.then_some(terms)
    }

    /// Returns for how long a lease may be spent that left these marks, after its request and a delay.
    pub(crate) fn lasts(&self, marks: &[i64], delay: Duration) -> Duration {
        self.length.min(self.counts(marks, delay))
    }

    /// Returns for how long a lease counts that left these marks, after its request and a delay.
    fn counts(&self, marks: &[i64], delay: Duration) -> Duration {
        match (self.end, marks) {
            (End::OfWindow, &[mark]) => {
                Duration::from_micros(u64::try_from(mark).unwrap_or(0)).saturating_sub(delay)
            }
            _ => self.length,
        }
    }

    /// Returns how many of so many permits may come back of a lease that ended, and left these marks: what has not drained
    /// in its length, or all of a window that goes on.
    pub(crate) fn come_back(&self, permits: u64, marks: &[i64], delay: Duration) -> u64 {
        match self.end {
            End::OfLength => permits.saturating_sub(2 * self.half),
            End::OfWindow if self.counts(marks, delay) > self.length => permits,
            End::OfWindow => 0,
        }
    }

    /// Returns how much later than its grant a lease is charged for, in microseconds.
    pub(crate) fn charged_ahead(&self) -> u64 {
        match self.end {
            End::OfLength => micros(self.length),
            End::OfWindow => 0,
        }
    }
}
