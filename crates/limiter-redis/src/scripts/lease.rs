//! What a process may lease of a limit.

use std::time::Duration;

use super::Gcra;

/// The terms of leases under a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// How long a lease lasts, in whole microseconds.
    pub(crate) length: Duration,
    /// The same in ticks of the quota.
    pub(super) ticks: u64,
    /// How many permits recover in half of it.
    pub(crate) half: u64,
}

/// The shortest lease, in microseconds: in less, a call brings hardly more permits than a batch of checks.
const SHORTEST: u64 = 5_000;

impl LeaseTerms {
    /// Returns the terms of leases that last `longest` at most, and a quarter of the time in which the burst
    /// recovers; `None` if that is too short.
    pub(super) fn of(gcra: &Gcra, longest: Duration) -> Option<Self> {
        let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        let micros = longest.min(gcra.capacity() / gcra.scale / 4);
        let ticks = micros * gcra.scale;
        (micros >= SHORTEST).then(|| Self {
            length: Duration::from_micros(micros),
            ticks,
            half: ticks / 2 / gcra.increment,
        })
    }
}
