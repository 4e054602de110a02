//! The leases that the server has granted, in calls whose reply has reached the process.

use std::collections::BTreeMap;

use crate::vocabulary::ProcessId;

/// How many grants there were, and how many permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) grants: u64,
    pub(crate) permits: u64,
}

impl Sum {
    const fn add(&mut self, permits: u64) {
        self.grants += 1;
        self.permits += permits;
    }
}

/// The leases that each limiter of each process was granted.
#[derive(Debug, Default)]
pub(crate) struct Grants(BTreeMap<(ProcessId, usize), Sum>);

impl Grants {
    /// Notes that a process has the reply that grants a limiter a lease.
    pub(crate) fn granted(&mut self, process: ProcessId, limiter: usize, permits: u64) {
        self.0.entry((process, limiter)).or_default().add(permits);
    }

    /// Returns what a limiter was granted.
    pub(crate) fn of(&self, process: ProcessId, limiter: usize) -> Sum {
        self.0.get(&(process, limiter)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_a_limiter_are_added_up() {
        let process = ProcessId(1);
        let mut grants = Grants::default();
        grants.granted(process, 3, 8);
        grants.granted(process, 3, 2);
        assert_eq!(grants.of(process, 3), Sum { grants: 2, permits: 10 });
        assert_eq!(grants.of(process, 2), Sum::default());
    }
}
