//! The processes of a fleet: started, stopped, suspended, resumed and killed.

mod in_flight;

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

use limiter_core::Error;

use crate::{
    clock::ProcessClock,
    executor::Executor,
    fleet::{Fleet, TIERS, Tuning},
    network::{Network, SimClient},
    random::Random,
    traffic::{Caller, Holder, Member},
    vocabulary::{KEYS, ProcessId, Subject, subject},
};

/// The processes, each in a place of its own.
pub(crate) struct Processes {
    executor: Executor,
    network: Network,
    pub(crate) fleet: Arc<Fleet>,
    is_over: Arc<AtomicBool>,
    random: Random,
    places: Vec<Option<Process>>,
    /// The settings of the process in each place.
    tunings: Vec<Vec<Tuning>>,
    /// The tier of each limiter that processes use or are about to use.
    tiers: Vec<usize>,
    /// How many were started.
    started: u32,
    floods: u64,
}

/// How long a limiter may take to end what is under way, when there are no faults.
const DRAINS_IN: Duration = Duration::from_secs(1);

/// How many fresh keys a flood has for each limiter.
const FLOOD: u64 = 40;

struct Process {
    member: Arc<Member>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// `is_known` if the auditor knows that its clock stands still.
    Stopped {
        is_known: bool,
    },
}

impl Processes {
    pub(crate) fn new(
        executor: &Executor,
        network: &Network,
        fleet: &Arc<Fleet>,
        is_over: &Arc<AtomicBool>,
        random: Random,
        number: u32,
    ) -> Result<Self, Error> {
        let mut processes = Self {
            executor: executor.clone(),
            network: network.clone(),
            fleet: Arc::clone(fleet),
            is_over: Arc::clone(is_over),
            random,
            places: Vec::new(),
            tunings: vec![fleet.tunings(); number as usize],
            tiers: vec![0; fleet.limiters()],
            started: 0,
            floods: 0,
        };
        for place in 0..number as usize {
            processes.places.push(None);
            processes.start(place)?;
        }
        Ok(processes)
    }

    /// Starts a process and its callers in a place.
    pub(crate) fn start(&mut self, place: usize) -> Result<(), Error> {
        self.started += 1;
        let process = ProcessId(self.started);
        self.executor.start(process);
        let random = &mut self.random;
        let (since, ppm) = (random.below(1 << 60), random.around_zero(100));
        let clock = ProcessClock::new(&self.executor, since, ppm);
        let client = SimClient::new(&self.network, process, &clock);
        let tunings = self.tunings.get(place).map_or(&[][..], |tunings| tunings);
        let (limiters, shares) = self.fleet.build(tunings, &client, &clock, random)?;
        let in_flight = self.start_in_flight(&client, &clock)?;
        self.network.with_records(|records, _| {
            for (index, limiter) in limiters.iter().enumerate() {
                // Tiers of other lengths have lists of their own.
                for policy in self.fleet.tiers(index) {
                    let tier = limiter.with_policy(policy)?;
                    for (key, name) in KEYS.iter().enumerate() {
                        let keys = tier.stored_keys(*name)?;
                        let node = keys.first().map_or(0, |key| self.network.node_of(key));
                        records.is_stored_at(subject(index, key), node, keys);
                    }
                }
            }
            Ok::<(), Error>(())
        })?;
        let member = Arc::new(Member {
            process,
            clock,
            limiters,
            shares,
            tiers: self.tiers.iter().map(|tier| AtomicUsize::new(*tier)).collect(),
            fleet: Arc::clone(&self.fleet),
            network: self.network.clone(),
            is_over: Arc::clone(&self.is_over),
            in_flight,
        });
        let random = &mut self.random;
        for _ in 0..random.between(2, 8) {
            let member = Arc::clone(&member);
            if let Some(in_flight) = &member.in_flight {
                let (in_flight, random) = (Arc::clone(in_flight), random.fork());
                self.executor.spawn(process, Holder { member, in_flight, random }.run());
                continue;
            }
            let caller = Caller { member, random: random.fork(), receipts: Vec::new() };
            self.executor.spawn(process, caller.run());
        }
        if let Some(place) = self.places.get_mut(place) {
            *place = Some(Process { member, state: State::Running });
        }
        Ok(())
    }

    /// Stops a process, and its clock too if that `stands_still`.
    pub(crate) fn stop(&mut self, process: ProcessId, stands_still: bool, is_known: bool) {
        self.executor.stop(process);
        let Some(stopped) = self.find(process) else { return };
        stopped.state = State::Stopped { is_known };
        if stands_still {
            stopped.member.clock.stand_still();
        }
        self.network.with_records(|records, moment| {
            records.auditor.in_flight.stops(process, is_known);
            if is_known {
                records.auditor.suspended(process, moment);
            }
        });
    }

    /// Lets a process go on, unless it was killed.
    pub(crate) fn resume(&mut self, process: ProcessId) {
        let lasts = self.fleet.longest_lease();
        let Some(resumed) = self.find(process) else { return };
        let was = std::mem::replace(&mut resumed.state, State::Running);
        resumed.member.clock.go_on();
        self.network.with_records(|records, moment| {
            records.auditor.in_flight.resumes(process, moment.now);
            if was == (State::Stopped { is_known: true }) {
                records.auditor.suspensions.end(process, moment, lasts);
            }
        });
        self.executor.resume(process);
        self.network.checks_in_flight();
    }

    /// Lets a process check many fresh keys.
    pub(crate) fn flood(&mut self, process: ProcessId) {
        self.floods += 1;
        let Some(flooded) = self.find(process) else { return };
        let member = Arc::clone(&flooded.member);
        for index in 0..member.limiters.len() {
            for number in 0..FLOOD {
                let key = format!("{}-{number}", self.floods);
                let Some(limiter) = member.limiter(index) else { continue };
                let checked = limiter.check(&key.into());
                self.executor.spawn(process, async move { drop(checked.await) });
            }
        }
    }

    /// Kills a process, and returns its place.
    pub(crate) fn kill(&mut self, process: ProcessId) -> Option<usize> {
        self.executor.kill(process);
        let is_killed =
            |it: &Option<Process>| it.as_ref().is_some_and(|it| it.member.process == process);
        let place = self.places.iter().position(is_killed)?;
        let killed = self.places.get_mut(place)?.take()?;
        drop(killed);
        self.network.with_records(|records, moment| {
            records.auditor.killed(process, moment);
        });
        Some(place)
    }

    /// Starts a process with other settings in a place.
    pub(crate) fn start_otherwise(&mut self, place: usize) -> Result<(), Error> {
        if let Some(tunings) = self.tunings.get_mut(place) {
            for (group, tuning) in tunings.iter_mut().enumerate() {
                *tuning = self.fleet.other_tuning(group, &mut self.random);
            }
        }
        self.start(place)
    }

    /// Lets a process share its keys with another number of processes, while the store can't decide.
    pub(crate) fn share(&mut self, process: ProcessId, number: u64) {
        let processes = u32::try_from(number).ok().and_then(NonZeroU32::new);
        let (Some(it), Some(processes)) = (self.find(process), processes) else { return };
        it.member.shares.iter().flatten().for_each(|share| share.set_processes(processes));
        it.member.in_flight.iter().for_each(|it| it.share(processes));
        self.network.with_records(|records, _| records.auditor.have_shares(number));
    }

    /// Returns a limiter and another of its tiers, which processes are about to use.
    pub(crate) fn next_tier(&mut self, random: &mut Random) -> (usize, usize) {
        let limiter = usize::try_from(random.below(self.tiers.len() as u64)).unwrap_or(0);
        let step = usize::try_from(random.between(1, TIERS as u64 - 1)).unwrap_or(1);
        let tier = self.tiers.get(limiter).map_or(0, |tier| (tier + step) % TIERS);
        if let Some(next) = self.tiers.get_mut(limiter) {
            *next = tier;
        }
        (limiter, tier)
    }

    /// Lets the process in a place use a tier of a limiter.
    pub(crate) fn reload(&self, place: usize, limiter: usize, tier: usize) {
        if let Some(Some(process)) = self.places.get(place) {
            process.member.use_tier(limiter, tier);
        }
    }

    /// Returns the tier of a limiter that all processes use when the faults have ended.
    pub(crate) fn tier(&self, limiter: usize) -> usize {
        self.tiers.get(limiter).copied().unwrap_or(0)
    }

    /// Starts and resumes all processes.
    pub(crate) fn heal(&mut self) -> Result<(), Error> {
        for process in self.ids() {
            self.resume(process);
        }
        for (limiter, tier) in self.tiers.iter().enumerate() {
            self.members().for_each(|member| member.use_tier(limiter, *tier));
        }
        for place in 0..self.places.len() {
            if self.places.get(place).is_some_and(Option::is_none) {
                self.start(place)?;
            }
        }
        Ok(())
    }

    /// Returns a process that is neither stopped nor killed.
    pub(crate) fn any_that_runs(&self, random: &mut Random) -> Option<ProcessId> {
        let running = self.places.iter().flatten().filter(|it| it.state == State::Running);
        let running: Vec<_> = running.map(|it| it.member.process).collect();
        random.pick(&running).copied()
    }

    pub(crate) fn ids(&self) -> Vec<ProcessId> {
        self.members().map(|member| member.process).collect()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.places.iter().flatten().map(|process| &process.member)
    }

    pub(crate) fn number(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// Returns how the counters of a process disagree with what its callers saw.
    pub(crate) fn disagrees(&self, process: ProcessId, has_ended: bool) -> Option<String> {
        let member = self.members().find(|member| member.process == process)?;
        self.in_flight_disagrees(member, has_ended)
    }

    /// Gives all leases back, and lets all limiters wait until nothing is under way.
    pub(crate) fn drain(&self) {
        self.drain_in_flight();
        for member in self.members() {
            for limiter in &member.limiters {
                let (limiter, network) = (limiter.clone(), self.network.clone());
                self.executor.spawn(member.process, async move {
                    if let Err(error) = limiter.drain(DRAINS_IN).await {
                        network.with_records(|records, moment| {
                            records.violated(moment, Subject::ALL, &error.to_string());
                        });
                    }
                });
            }
        }
    }

    /// Returns what should be over by now, and is not.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let tasks = self.ids().into_iter().filter_map(|process| {
            let tasks = self.executor.tasks(process);
            (tasks > 0).then(|| format!("{tasks} tasks of {process} have not ended"))
        });
        let counters = self.ids().into_iter().filter_map(|process| self.disagrees(process, true));
        tasks.chain(counters).collect()
    }

    fn find(&mut self, process: ProcessId) -> Option<&mut Process> {
        self.places.iter_mut().flatten().find(|it| it.member.process == process)
    }
}
