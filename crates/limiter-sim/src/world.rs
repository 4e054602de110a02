//! A run: the processes of a fleet, the faults that happen to them, and what has to hold when the faults have stopped.

mod calamity;
mod processes;

pub(crate) use self::processes::Processes;

use std::{
    collections::BinaryHeap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use limiter_core::Error;

use self::calamity::Step;
use crate::{
    executor::{Executor, Micros},
    fault::Faults,
    fleet::Fleet,
    log::Subject,
    network::Network,
    probe,
    random::Random,
    records::Records,
    report::Report,
    wrong::Wrong,
};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From which all random numbers are drawn.
    pub seed: u64,
    /// How many processes there are. The default is drawn from the seed: 1 to 6.
    pub processes: Option<u32>,
    /// For how long there are faults, 15 s by default.
    pub faults_for: Micros,
    /// What is wrong in the world on purpose.
    pub wrong: Option<Wrong>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, processes: None, faults_for: 15_000_000, wrong: None }
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

/// All that is simulated.
struct World {
    seed: u64,
    executor: Executor,
    network: Network,
    processes: Processes,
    random: Random,
    wrong: Option<Wrong>,
    faults_until: Micros,
    /// What is to happen, the next step first.
    agenda: BinaryHeap<(std::cmp::Reverse<(Micros, u64)>, Step)>,
    planned: u64,
    /// Tells the callers to end.
    is_over: Arc<AtomicBool>,
}

/// How long callers and messages may take to end.
const SETTLES_IN: Micros = 6_000_000;

impl World {
    fn new(settings: &Settings) -> Result<Self, Error> {
        let mut random = Random::new(settings.seed);
        let drawn = u32::try_from(random.between(1, 6)).unwrap_or(1);
        let number = settings.processes.unwrap_or(drawn).max(1);
        let fleet = Arc::new(Fleet::new(&mut random, number)?);
        let (auditor, names) = fleet.auditor();
        let executor = Executor::new();
        let faults = Faults::new(random.fork());
        let records = Records::new(names, auditor);
        let network = Network::new(&executor, random.fork(), faults, records, settings.wrong);
        let is_over = Arc::new(AtomicBool::new(false));
        let processes =
            Processes::new(&executor, &network, &fleet, &is_over, random.fork(), number)?;
        Ok(Self {
            seed: settings.seed,
            executor,
            network,
            processes,
            random,
            wrong: settings.wrong,
            faults_until: settings.faults_for,
            agenda: BinaryHeap::new(),
            planned: 0,
            is_over,
        })
    }

    fn run(mut self) -> Result<Report, Error> {
        self.plan(0, Step::NextFault);
        self.plan(0, Step::Replicate);
        while let Some((std::cmp::Reverse((time, _)), step)) = self.agenda.pop() {
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

    /// Adds a step in a while.
    fn plan(&mut self, after: Micros, step: Step) {
        self.planned += 1;
        let time = self.executor.now().saturating_add(after);
        self.agenda.push((std::cmp::Reverse((time, self.planned)), step));
    }

    /// Stops the faults, and checks that everything works again.
    fn recover(&mut self) -> Result<(), Error> {
        self.network.with_faults(Faults::end);
        self.network.heal();
        self.network.with_server(|server| server.refuses = None);
        self.processes.heal()?;
        self.is_over.store(true, Relaxed);
        let settled = self.executor.now() + SETTLES_IN + self.processes.fleet.recovery();
        self.executor.run_until(settled);
        if self.is_violated() {
            return Ok(());
        }
        let probes = probe::start(&self.processes, &self.executor, &mut self.random);
        self.executor.run_until(probes.until);
        for (subject, message) in probes.failures(&self.processes.fleet) {
            self.violated(subject, &message);
        }
        self.executor.run_until(self.executor.now() + SETTLES_IN);
        for message in self.processes.leftovers() {
            self.violated(Subject(usize::MAX), &message);
        }
        Ok(())
    }

    fn violated(&self, subject: Subject, message: &str) {
        self.network.with_records(|records, moment| records.violated(moment, subject, message));
    }

    fn is_violated(&self) -> bool {
        self.network.with_records(|records, _| !records.violations.is_empty())
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
            hash: hash ^ records.hash().rotate_left(1),
        })
    }
}
