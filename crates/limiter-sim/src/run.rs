//! A run from its first fault to its report.

use std::{collections::BTreeMap, fmt, mem, sync::atomic::Ordering::Relaxed};

use limiter_core::Error;

use crate::{
    fault::Fault, record::Violation, settings::Settings, vocabulary::Micros, world::World,
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
    /// How many permits the store and leases have admitted, and how many of them were checked against a bound.
    pub permits: (u64, u64),
    /// How often each fault happened.
    pub faults: BTreeMap<Fault, u64>,
    /// The checks that failed. The run ends with the first moment at which there is one.
    pub violations: Vec<Violation>,
    /// A hash over every event.
    pub hash: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} processes, hash {:016x}", self.seed, self.processes, self.hash)?;
        self.violations.iter().try_for_each(|violation| write!(f, "VIOLATION {violation}"))
    }
}

/// Runs a simulation.
///
/// # Panics
///
/// If a policy of the fleet is not valid.
#[expect(clippy::panic, reason = "documented: the fleet is at fault")]
#[must_use]
pub fn run(settings: &Settings) -> Report {
    World::new(settings).and_then(World::run).unwrap_or_else(|error| panic!("{error}"))
}

impl World {
    fn run(mut self) -> Result<Report, Error> {
        while let Some(((time, _), step)) = self.agenda.pop_first() {
            self.executor.run_until(time);
            if self.is_violated() {
                break;
            }
            self.take(step)?;
        }
        if !self.is_violated() {
            self.heal()?;
            self.processes.is_over.store(true, Relaxed);
            self.finish();
        }
        let report = self.report();
        self.executor.clear();
        Ok(report)
    }

    fn report(&self) -> Report {
        let faults = self.network.with_faults(|faults| faults.counts.clone());
        let (simulated, hash) = (self.executor.now(), self.executor.hash());
        self.network.with_record(|record, _| Report {
            seed: self.seed,
            processes: self.processes.number(),
            simulated,
            decisions: record.decisions,
            permits: (record.auditor.admitted, record.auditor.counted),
            faults,
            violations: mem::take(&mut record.violations),
            hash: hash ^ record.hash().rotate_left(1),
        })
    }
}
