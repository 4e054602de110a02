//! What a run has found.

use std::{collections::BTreeMap, fmt};

use crate::{
    auditor::{InFlightCounts, Violation},
    fault::Fault,
    vocabulary::Micros,
};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed, which repeats the run.
    pub seed: u64,
    /// How many processes there were.
    pub processes: u32,
    /// The simulated time.
    pub simulated: Micros,
    /// How many decisions callers got.
    pub decisions: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<Fault, u64>,
    /// The checks that failed. The run ends with the first moment at which there is one.
    pub violations: Vec<Violation>,
    /// What requests in flight did, for tests.
    pub(crate) in_flight: InFlightCounts,
    /// A hash over every event.
    pub hash: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} processes, hash {:016x}", self.seed, self.processes, self.hash)?;
        if self.in_flight != InFlightCounts::default() {
            writeln!(f, "{}", self.in_flight)?;
        }
        self.violations.iter().try_for_each(|violation| write!(f, "VIOLATION {violation}"))
    }
}
