//! What many runs have found together.

use std::{collections::BTreeMap, time::Duration};

use limiter_sim::{Fault, Micros, Report, Settings};

/// What many runs have found.
#[derive(Default)]
pub(super) struct Total {
    runs: u64,
    simulated: Micros,
    decisions: u64,
    faults: BTreeMap<Fault, u64>,
    violations: usize,
    /// The settings of the runs with violations, in the order in which they ended.
    pub(super) failed: Vec<Settings>,
}

impl Total {
    pub(super) fn add(&mut self, report: &Report, settings: &Settings) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.decisions += report.decisions;
        self.violations += report.violations.len();
        if !report.violations.is_empty() {
            self.failed.push(settings.clone());
        }
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    /// Returns the figures in one line.
    pub(super) fn line(&self, took: Duration, threads: usize) -> String {
        let (simulated, took) = (self.simulated / 1_000_000, took.as_secs().max(1));
        let faults: u64 = self.faults.values().sum();
        let Self { runs, decisions, violations, .. } = self;
        format!(
            "{runs} runs, {:.1} simulated hours, {decisions} decisions, {faults} faults, {violations} violations; {} \
             simulated seconds and {} decisions a second by {threads} threads",
            Duration::from_secs(simulated).as_secs_f64() / 3_600.0,
            simulated / took,
            decisions / took,
        )
    }

    /// Prints how often each fault happened, and the seeds with violations.
    pub(super) fn print_details(&self) {
        for (fault, count) in &self.faults {
            println!("{count:>9}  {fault}");
        }
        if !self.failed.is_empty() {
            let name = |settings: &Settings| {
                let services = if settings.services { " --services" } else { "" };
                let in_flight = if settings.in_flight { " --in-flight" } else { "" };
                format!("{}{services}{in_flight}", settings.seed)
            };
            let failed: Vec<String> = self.failed.iter().map(name).collect();
            println!("seeds with violations: {}", failed.join(", "));
        }
    }
}
