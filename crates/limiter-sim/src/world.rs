//! All that is simulated, and what is to happen next.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, atomic::AtomicBool},
};

use limiter_core::Error;

use crate::{
    executor::Executor,
    fault::Faults,
    fleet::Fleet,
    in_flight_plan,
    network::Network,
    processes::Processes,
    random::Random,
    records::Records,
    settings::Settings,
    step::Step,
    vocabulary::{Micros, Subject},
    wrong::Wrong,
};

/// All that is simulated.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) executor: Executor,
    pub(crate) network: Network,
    pub(crate) processes: Processes,
    pub(crate) random: Random,
    pub(crate) wrong: Option<Wrong>,
    pub(crate) calm: Micros,
    pub(crate) faults_until: Micros,
    /// What is to happen, the next step first.
    pub(crate) agenda: BinaryHeap<(Reverse<(Micros, u64)>, Step)>,
    planned: u64,
    /// Set when the callers are to end.
    pub(crate) is_over: Arc<AtomicBool>,
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let has_in_flight = settings.has_in_flight();
        let stream = if has_in_flight { in_flight_plan::STREAM } else { 0 };
        let mut random = Random::new(settings.seed ^ stream);
        let drawn = u32::try_from(random.between(1, 6)).unwrap_or(1);
        let number = settings.processes.unwrap_or(drawn).max(1);
        let fleet = match has_in_flight {
            true => Fleet::of_in_flight(&mut random, number, settings.wrong),
            false => Fleet::new(&mut random, number, settings.wrong)?,
        };
        let fleet = Arc::new(fleet);
        let (auditor, names) = fleet.auditor();
        let executor = Executor::new();
        let mut without = settings.without.clone();
        without.extend(fleet.in_flight.iter().flat_map(|plan| &plan.without));
        let faults = Faults::new(random.fork(), &without);
        let records = Records::new(names, auditor);
        let network =
            Network::new(&executor, (random.fork(), fleet.trips), faults, records, settings.wrong);
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
            calm: settings.calm,
            faults_until: settings.calm + settings.faults_for,
            agenda: BinaryHeap::new(),
            planned: 0,
            is_over,
        })
    }

    /// Adds a step in a while.
    pub(crate) fn plan(&mut self, after: Micros, step: Step) {
        self.planned += 1;
        let time = self.executor.now().saturating_add(after);
        self.agenda.push((Reverse((time, self.planned)), step));
    }

    pub(crate) fn violated(&self, subject: Subject, message: &str) {
        self.network.with_records(|records, moment| records.violated(moment, subject, message));
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.network.with_records(|records, _| !records.violations.is_empty())
    }
}
