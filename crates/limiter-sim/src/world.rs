//! All that is simulated: what is to happen next, and the faults of processes, their network and the servers.

use std::{collections::BTreeMap, mem, sync::Arc};

use limiter_core::Error;
use limiter_double::Refusal;

use crate::{
    executor::Executor,
    fault::{Fault, Faults},
    fleet::Fleet,
    network::Network,
    processes::Processes,
    random::Random,
    record::Event,
    servers::{Servers, Trouble},
    settings::Settings,
    traffic,
    vocabulary::{Micros, ProcessId, Subject},
    wrong::Wrong,
};

/// What happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A fault, and the plan of the next one.
    NextFault,
    Fault(Fault),
    /// The faults end.
    LastFault,
    /// The replicas catch up.
    Replicate,
    /// The process that was stopped or suspended goes on.
    Resume(ProcessId),
    /// A process is started in a place.
    Start(usize),
    /// The process in a place uses another tier of a limiter.
    Reload {
        place: usize,
        limiter: usize,
        tier: usize,
    },
    /// A key moves to another node, the last one with its slot.
    Move {
        key: Vec<u8>,
        is_last: bool,
    },
}

/// How long it takes until all processes have reloaded a quota.
const RELOADED_WITHIN: Micros = 1_000_000;

/// All that is simulated.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) executor: Executor,
    pub(crate) network: Network,
    pub(crate) processes: Processes,
    pub(crate) random: Random,
    wrong: Option<Wrong>,
    faults_until: Micros,
    /// What is to happen, by its time and then in the order in which it was planned.
    pub(crate) agenda: BTreeMap<(Micros, u64), Step>,
    planned: u64,
    /// Whether the slot of a key moves, which is one at a time.
    is_moving: bool,
    /// By how much the servers' clock has stepped back, together.
    pub(crate) stepped_back: Micros,
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let mut random = Random::new(settings.seed);
        let drawn = u32::try_from(random.between(1, 6)).unwrap_or(1);
        let number = settings.processes.unwrap_or(drawn).max(1);
        let fleet = Arc::new(Fleet::new(&mut random, number)?);
        let executor = Executor::new();
        let faults = Faults::new(random.fork(), &settings.without);
        let numbers = (random.fork(), fleet.trips);
        let network = Network::new(&executor, numbers, faults, fleet.record(), settings.wrong);
        let processes = Processes::new(&executor, &network, &fleet, random.fork(), number);
        let mut world = Self {
            seed: settings.seed,
            executor,
            network,
            processes,
            random,
            wrong: settings.wrong,
            faults_until: settings.faults_for,
            agenda: BTreeMap::new(),
            planned: 0,
            is_moving: false,
            stepped_back: 0,
        };
        (0..number as usize).try_for_each(|place| world.start(place))?;
        world.network.with_faults(|faults| faults.are_on = true);
        world.plan(0, Step::Replicate);
        world.plan(0, Step::NextFault);
        world.plan(settings.faults_for, Step::LastFault);
        Ok(world)
    }

    /// Adds a step in a while.
    fn plan(&mut self, after: Micros, step: Step) {
        self.planned += 1;
        let time = self.executor.now().saturating_add(after);
        self.agenda.insert((time, self.planned), step);
    }

    fn start(&mut self, place: usize) -> Result<(), Error> {
        let started = self.processes.start(place)?;
        traffic::start(&self.executor, started);
        Ok(())
    }

    pub(crate) fn violated(&self, subject: Option<Subject>, message: &str) {
        self.network.with_record(|record, moment| record.violated(moment, subject, message));
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.network.with_record(|record, _| !record.violations.is_empty())
    }

    /// Takes a step. Those after the faults have ended only undo what they did.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Error> {
        let is_over = self.executor.now() >= self.faults_until;
        match step {
            Step::Resume(process) => self.processes.resume(process),
            Step::Start(place) => self.start(place)?,
            Step::Reload { place, limiter, tier } => self.processes.reload(place, limiter, tier),
            Step::Move { key, is_last } => {
                self.is_moving &= !is_last;
                self.network.with_servers(|servers| servers.move_key(&key, is_last));
            }
            Step::LastFault => self.network.with_faults(|faults| faults.are_on = false),
            Step::NextFault | Step::Fault(_) | Step::Replicate if is_over => {}
            Step::NextFault => {
                let (fault, gap) = self.network.with_faults(Faults::next);
                if let Some(fault) = fault {
                    self.plan(gap, Step::Fault(fault));
                }
                self.plan(gap, Step::NextFault);
            }
            Step::Fault(fault) => {
                // Each fault draws from numbers of its own, so that the others stay the same without it.
                let random = self.random.fork();
                let others = mem::replace(&mut self.random, random);
                if !self.network.with_faults(|faults| faults.without.contains(&fault)) {
                    self.happens(fault)?;
                }
                self.random = others;
            }
            Step::Replicate => {
                self.network.with_servers(Servers::replicate);
                let lag = self.random.between(10_000, 300_000);
                self.plan(lag, Step::Replicate);
            }
        }
        Ok(())
    }

    fn happens(&mut self, fault: Fault) -> Result<(), Error> {
        let now = self.executor.now();
        let node = self.random.index(self.network.nodes());
        let time = self.random.between(10_000, 1_500_000);
        let until = now + time;
        let network = self.network.clone();
        let has_trouble = |trouble| {
            network.with_servers(|servers| servers.has_trouble(node, trouble, until));
        };
        let Some(process) = self.processes.any_that_runs(&mut self.random) else { return Ok(()) };
        match fault {
            Fault::Stopped | Fault::Suspended => {
                let is_suspended = fault == Fault::Suspended;
                let stands_still = is_suspended || self.wrong == Some(Wrong::ClockStandsStill);
                self.processes.stop(process, stands_still, is_suspended);
                self.plan(time, Step::Resume(process));
            }
            Fault::Killed => {
                if let Some(place) = self.kill(process) {
                    self.plan(time, Step::Start(place));
                }
            }
            Fault::Cut => network.cut(process, node, now + time / 10),
            Fault::Partitioned => network.partition(process, node, until),
            Fault::Slow => {
                let by = self.random.between(1_000, 80_000);
                network.slow_down(node, by, until);
            }
            Fault::ErrorReplies => {
                let refusal = self.random.pick(&Trouble::REFUSALS).into_iter();
                refusal.for_each(|it| has_trouble(Trouble::Refuses(*it)));
            }
            Fault::MemoryFull => has_trouble(Trouble::Full),
            Fault::CommandDenied => {
                let command = self.random.pick(&Trouble::COMMANDS).into_iter();
                command.for_each(|it| has_trouble(Trouble::Denies(it)));
            }
            Fault::ScriptsFlushed => {
                network.with_servers(|servers| servers.flush_scripts(node, now));
            }
            Fault::SlotMoved if self.moves(time) => {}
            Fault::SlotMoved => return Ok(()),
            Fault::Restarted => {
                network.with_servers(|servers| servers.restart(node, now));
                has_trouble(Trouble::Refuses(Refusal::Loading));
                self.loses_state(node);
            }
            Fault::FailedOver => {
                network.with_servers(|servers| servers.fail_over(node));
                // It is a replica until it is promoted.
                has_trouble(Trouble::Refuses(Refusal::ReadOnly));
                self.loses_state(node);
            }
            Fault::Stale => {
                network.with_servers(|servers| servers.answers_stale(node, process, until));
                network.with_record(|record, moment| record.auditor.voids(None, moment, time));
            }
            Fault::Stepped => {
                let micros = self.random.around_zero(5_000_000);
                network.with_servers(|servers| servers.clock.step(micros));
                network.with_record(|record, moment| record.auditor.voids(None, moment, 0));
                self.stepped_back += micros.min(0).unsigned_abs();
            }
            Fault::Slewed => {
                let ppm = self.random.around_zero(300);
                network.with_servers(|servers| servers.clock.slew(now, ppm));
            }
            Fault::Flooded => self.processes.flood(process),
            Fault::QuotaReloaded => self.reload(),
            Fault::SettingsChanged => self.change_settings(process)?,
            // They happen to messages and operations.
            Fault::RequestLost
            | Fault::ReplyLost
            | Fault::Delayed
            | Fault::Held
            | Fault::CallerLeaves
            | Fault::LateRefund
            | Fault::KeyReset
            | Fault::TierChanged => return Ok(()),
        }
        self.network.with_faults(|faults| faults.count(fault));
        self.network.with_record(|record, moment| {
            record.note(moment, Some(process), None, Event::Fault { fault, until });
        });
        Ok(())
    }

    /// Notes that a node has lost some of its state, and cuts all processes off it.
    fn loses_state(&mut self, node: usize) {
        self.network.with_record(|record, moment| record.auditor.voids(None, moment, 0));
        let until = self.executor.now() + self.random.between(1_000, 100_000);
        for member in self.processes.members() {
            self.network.cut(member.process, node, until);
        }
    }

    /// Kills a process, and returns its place.
    fn kill(&mut self, process: ProcessId) -> Option<usize> {
        let killed = self.processes.members().find(|member| member.process == process);
        if let Some(message) = killed.and_then(|member| member.lost_otherwise()) {
            self.violated(None, &message);
        }
        self.processes.kill(process)
    }

    /// Begins to move the slot of one of the stored keys: first each key of its subject, and in the end the slot.
    fn moves(&mut self, time: Micros) -> bool {
        let stored: Vec<(Vec<u8>, Subject)> = self.network.with_record(|record, _| {
            record.stored().map(|(key, subject)| (key.clone(), subject)).collect()
        });
        let Some((first, of)) = self.random.pick(&stored).cloned() else { return false };
        let others = self.network.nodes() as u64 - 1;
        let step = usize::try_from(self.random.between(1, others)).unwrap_or(1);
        if self.is_moving || !self.network.with_servers(|it| it.begin_move(&first, step)) {
            return false;
        }
        self.is_moving = true;
        for (key, _) in stored.into_iter().filter(|(_, subject)| *subject == of) {
            let after = self.random.below(time);
            self.plan(after, Step::Move { key, is_last: false });
        }
        self.plan(time, Step::Move { key: first, is_last: true });
        true
    }

    /// Lets all processes use another tier of a limiter, each at a moment of its own.
    fn reload(&mut self) {
        let (limiter, tier) = self.processes.next_tier(&mut self.random);
        for place in 0..self.processes.number() as usize {
            let after = self.random.below(RELOADED_WITHIN);
            self.plan(after, Step::Reload { place, limiter, tier });
        }
    }

    /// Starts a process anew with other settings, or lets it share its keys with another number of processes.
    fn change_settings(&mut self, process: ProcessId) -> Result<(), Error> {
        if self.random.below(2) == 0 {
            let most = 2 * u64::from(self.processes.number());
            self.processes.share(process, self.random.between(1, most));
        } else if let Some(place) = self.kill(process) {
            self.processes.tunes(place);
            self.start(place)?;
        }
        Ok(())
    }

    /// Ends the faults, and lets all processes run.
    pub(crate) fn heal(&mut self) -> Result<(), Error> {
        self.network.heal();
        self.network.with_servers(Servers::heal);
        self.processes.heal().into_iter().try_for_each(|place| self.start(place))
    }
}
