//! Processes that were suspended, and what they may hold from before that.

use std::collections::BTreeMap;

use crate::vocabulary::{Micros, Moment, ProcessId};

/// When a process was suspended, and until when it may hold a lease from before that.
#[derive(Clone, Copy, Debug)]
struct Suspension {
    since: Moment,
    until: Micros,
}

/// The processes that were suspended.
#[derive(Debug, Default)]
pub(crate) struct Suspensions(BTreeMap<ProcessId, Suspension>);

impl Suspensions {
    /// Notes that a process is suspended.
    pub(crate) fn begin(&mut self, process: ProcessId, at: Moment) {
        let known = self.0.get(&process).filter(|known| at.now < known.until);
        let since = known.map_or(at, |known| known.since);
        self.0.insert(process, Suspension { since, until: Micros::MAX });
    }

    /// Notes that a process goes on, which may hold leases for `lasts`.
    pub(crate) fn end(&mut self, process: ProcessId, at: Moment, lasts: Micros) {
        if let Some(suspension) = self.0.get_mut(&process) {
            suspension.until = at.now + lasts;
        }
    }

    /// Returns the earliest moment at which permits count that a process spends of a lease: the suspension, or `at`.
    pub(crate) fn earliest_of_lease(&self, process: ProcessId, at: Moment, node: usize) -> Micros {
        let suspension = self.0.get(&process).filter(|known| at.now < known.until);
        let at = at.passed(node);
        suspension.map_or(at, |known| known.since.passed(node).min(at))
    }
}
