//! A run from its first fault to its report.

use std::{cmp::Reverse, sync::atomic::Ordering::Relaxed};

use limiter_core::Error;

use crate::{
    probe,
    report::Report,
    server::Server,
    settings::Settings,
    step::Step,
    vocabulary::{SETTLES_IN, Subject},
    world::World,
};

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
        self.plan(self.calm, Step::FirstFault);
        self.plan(self.faults_until, Step::LastFault);
        self.plan(0, Step::Replicate);
        while let Some((Reverse((time, _)), step)) = self.agenda.pop() {
            self.executor.run_until(time);
            if self.is_violated() {
                break;
            }
            self.take(step)?;
        }
        if !self.is_violated() {
            self.recover()?;
        }
        let report = self.report();
        self.executor.clear();
        Ok(report)
    }

    /// Stops the faults, and checks that everything works again.
    fn recover(&mut self) -> Result<(), Error> {
        self.network.heal();
        self.network.with_servers(Server::heal);
        self.processes.heal()?;
        self.executor.run_until(self.executor.now() + self.calm);
        self.is_over.store(true, Relaxed);
        if self.processes.fleet.in_flight.is_some() {
            self.finish_in_flight();
            if !self.is_violated() {
                self.end();
            }
            return Ok(());
        }
        let settled = self.executor.now() + SETTLES_IN + self.processes.fleet.recovery();
        self.executor.run_until(settled);
        if self.is_violated() {
            return Ok(());
        }
        let probes = probe::start(&self.processes, &self.executor, &mut self.random);
        self.executor.run_until(probes.from);
        let before = self.network.with_records(|records, _| records.calls.clone());
        self.executor.run_until(probes.until);
        let after = self.network.with_records(|records, _| records.calls.clone());
        let restless = probe::restless(&probes, &self.processes, &before, &after);
        for (subject, message) in probes.failures(&self.processes).into_iter().chain(restless) {
            self.violated(subject, &message);
        }
        self.executor.run_until(self.executor.now() + SETTLES_IN);
        if self.is_violated() {
            return Ok(());
        }
        self.end();
        Ok(())
    }

    /// Lets all limiters end what is under way, and checks that nothing is left.
    fn end(&self) {
        self.processes.drain();
        self.executor.run_until(self.executor.now() + SETTLES_IN);
        for message in self.processes.leftovers() {
            self.violated(Subject::ALL, &message);
        }
    }

    fn report(&self) -> Report {
        let faults = self.network.with_faults(|faults| faults.counts.clone());
        let simulated = self.executor.now();
        let hash = self.executor.hash();
        self.network.with_records(|records, _| Report {
            seed: self.seed,
            processes: self.processes.number(),
            simulated,
            decisions: records.decisions,
            faults,
            violations: std::mem::take(&mut records.violations),
            in_flight: records.auditor.in_flight.counts,
            hash: hash ^ records.hash().rotate_left(1),
        })
    }
}
