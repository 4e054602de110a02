//! Times, processes and keys, as all parts of a simulation name them.

use std::{fmt, time::Duration};

/// Microseconds since the simulation began.
pub type Micros = u64;

/// A process. One that is started anew has a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessId(pub(crate) u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// A key of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    /// The index of the limiter: those of rates come before those of requests in flight.
    pub(crate) limiter: usize,
    /// The index of its key.
    pub(crate) key: usize,
}

impl Subject {
    /// Returns the name of its key.
    pub(crate) fn name(self) -> &'static str {
        KEYS.get(self.key).copied().unwrap_or_default()
    }
}

/// The keys of each limiter.
pub(crate) const KEYS: [&str; 2] = ["alice", "bob"];

/// Returns the subjects of a limiter.
pub(crate) fn subjects(limiter: usize) -> impl Iterator<Item = Subject> {
    (0..KEYS.len()).map(move |key| Subject { limiter, key })
}

/// The time in which all that is under way ends after the faults.
pub(crate) const SETTLES_IN: Micros = 6_000_000;

/// How long a call may be under way.
pub(crate) const UNDER_WAY: Micros = 5_000_000;

/// How far ahead permits may be reserved.
pub(crate) const HORIZON: Duration = Duration::from_secs(1);

/// A moment: the simulated time, and the time that has passed by the servers' clock, without its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Micros,
    pub(crate) passed: Micros,
}

pub(crate) fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
