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

/// A key of a limiter: the index of its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject(pub(crate) usize);

impl Subject {
    /// All keys, or none of them.
    pub(crate) const ALL: Self = Self(usize::MAX);

    /// Returns the name of its key.
    pub(crate) fn key(self) -> &'static str {
        KEYS.get(self.0 % KEYS.len()).copied().unwrap_or_default()
    }

    /// Returns the index of its limiter.
    pub(crate) const fn limiter(self) -> usize {
        self.0 / KEYS.len()
    }
}

/// The keys of each limiter.
pub(crate) const KEYS: [&str; 2] = ["alice", "bob"];

/// Returns the subject of a key of a limiter.
pub(crate) const fn subject(limiter: usize, key: usize) -> Subject {
    Subject(limiter * KEYS.len() + key)
}

/// The time in which all that is under way ends after the faults.
pub(crate) const SETTLES_IN: Micros = 6_000_000;

/// How far ahead permits may be reserved.
pub(crate) const HORIZON: Duration = Duration::from_secs(1);

/// The most nodes of a cluster.
pub(crate) const MAX_NODES: usize = 3;

/// A moment: the simulated time, and the time that has passed by the clock of each node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Micros,
    pub(crate) by_nodes: [Micros; MAX_NODES],
}

impl Moment {
    /// Returns the time that has passed by a node's clock.
    pub(crate) fn passed(&self, node: usize) -> Micros {
        self.by_nodes.get(node).copied().unwrap_or(self.now)
    }
}
