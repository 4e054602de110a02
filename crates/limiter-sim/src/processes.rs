//! The processes of a fleet: started, stopped, suspended, resumed and killed.

mod member;

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::Error;

pub(crate) use self::member::{Member, Target};
use crate::{
    clock::ProcessClock,
    executor::Executor,
    fleet::{Fleet, TIERS, Tuning},
    network::{Network, SimClient},
    random::Random,
    vocabulary::{ProcessId, subjects},
};

/// The processes, each in a place of its own.
pub(crate) struct Processes {
    executor: Executor,
    network: Network,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) is_over: Arc<AtomicBool>,
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
    is_running: bool,
    /// Whether its clock stands still, and the auditor knows.
    is_suspended: bool,
}

impl Processes {
    /// Returns so many places without processes.
    pub(crate) fn new(
        executor: &Executor,
        network: &Network,
        fleet: &Arc<Fleet>,
        random: Random,
        number: u32,
    ) -> Self {
        Self {
            executor: executor.clone(),
            network: network.clone(),
            fleet: Arc::clone(fleet),
            is_over: Arc::default(),
            random,
            places: (0..number).map(|_| None).collect(),
            tunings: vec![fleet.tunings(); number as usize],
            tiers: vec![0; fleet.limiters()],
            started: 0,
            floods: 0,
        }
    }

    /// Starts a process in a place, and returns it with random numbers for its callers.
    pub(crate) fn start(&mut self, place: usize) -> Result<(Arc<Member>, Random), Error> {
        self.started += 1;
        let process = ProcessId(self.started);
        self.executor.start(process);
        let random = &mut self.random;
        let (since, ppm) = (random.below(1 << 60), random.around_zero(100));
        let clock = ProcessClock::new(&self.executor, since, ppm);
        let client = SimClient::new(&self.network, process, &clock);
        let tunings = self.tunings.get(place).map_or(&[][..], |tunings| tunings);
        let limiters = self.fleet.build(tunings, &client, &clock, random)?;
        let is_strict = random.below(4) > 0;
        let tiers = self.tiers.iter().map(|tier| AtomicUsize::new(*tier)).collect();
        let (fleet, network) = (Arc::clone(&self.fleet), self.network.clone());
        let is_over = Arc::clone(&self.is_over);
        let member = Member { process, clock, limiters, tiers, fleet, network, is_over, is_strict };
        member.names_stored_keys()?;
        let member = Arc::new(member);
        if let Some(place) = self.places.get_mut(place) {
            let member = Arc::clone(&member);
            *place = Some(Process { member, is_running: true, is_suspended: false });
        }
        Ok((member, self.random.fork()))
    }

    /// Stops a process, and its clock too if that `stands_still`, which the auditor knows if it `is_suspended`.
    pub(crate) fn stop(&mut self, process: ProcessId, stands_still: bool, is_suspended: bool) {
        self.executor.stop(process);
        let Some(stopped) = self.find(process) else { return };
        (stopped.is_running, stopped.is_suspended) = (false, is_suspended);
        if stands_still {
            stopped.member.clock.stand_still(true);
        }
        self.network.with_record(|record, _| {
            record.auditor.in_flight.runs(process, false);
            if is_suspended {
                record.auditor.suspends(process, None, 0);
            }
        });
    }

    /// Lets a process go on, unless it was killed.
    pub(crate) fn resume(&mut self, process: ProcessId) {
        // The longest time for which a process may hold a lease.
        let holds = self.fleet.longest_window().max(1_000_000);
        let Some(resumed) = self.find(process) else { return };
        resumed.is_running = true;
        let was_suspended = std::mem::take(&mut resumed.is_suspended);
        resumed.member.clock.stand_still(false);
        self.network.with_record(|record, moment| {
            record.auditor.in_flight.runs(process, true);
            if was_suspended {
                record.auditor.suspends(process, Some(moment), holds);
            }
        });
        self.executor.resume(process);
        self.network.checks_in_flight();
    }

    /// Lets a process check many fresh keys.
    pub(crate) fn flood(&mut self, process: ProcessId) {
        self.floods += 1;
        let floods = self.floods;
        let Some(flooded) = self.find(process) else { return };
        let member = Arc::clone(&flooded.member);
        for limiter in (0..member.limiters.rates.len()).filter_map(|it| member.limiter(it)) {
            for number in 0..FLOOD {
                let checked = limiter.check(&format!("{floods}-{number}").into());
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
        self.places.get_mut(place)?.take();
        Some(place)
    }

    /// Gives the process that is started next in a place other settings.
    pub(crate) fn tunes(&mut self, place: usize) {
        if let Some(tunings) = self.tunings.get_mut(place) {
            for (group, tuning) in tunings.iter_mut().enumerate() {
                *tuning = self.fleet.other_tuning(group, &mut self.random);
            }
        }
    }

    /// Lets a process share its keys with another number of processes, while the store can't decide.
    pub(crate) fn share(&mut self, process: ProcessId, number: u64) {
        let processes = u32::try_from(number).ok().and_then(NonZeroU32::new);
        let (Some(it), Some(processes)) = (self.find(process), processes) else { return };
        let limiters = &it.member.limiters;
        limiters.shares.iter().flatten().for_each(|share| share.set_processes(processes));
        limiters.in_flight.iter().for_each(|it| it.inner.set_processes(processes));
    }

    /// Returns a limiter and another of its tiers, which processes are about to use.
    pub(crate) fn next_tier(&mut self, random: &mut Random) -> (usize, usize) {
        let limiter = random.index(self.tiers.len());
        let step = usize::try_from(random.between(1, TIERS as u64 - 1)).unwrap_or(1);
        let Some(tier) = self.tiers.get_mut(limiter) else { return (limiter, 0) };
        *tier = (*tier + step) % TIERS;
        (limiter, *tier)
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

    /// Resumes all processes, lets them use the same tiers, and returns the places without one.
    pub(crate) fn heal(&mut self) -> Vec<usize> {
        for process in self.members().map(|member| member.process).collect::<Vec<_>>() {
            self.resume(process);
        }
        for (limiter, tier) in self.tiers.iter().enumerate() {
            self.members().for_each(|member| member.use_tier(limiter, *tier));
        }
        (0..self.places.len())
            .filter(|it| self.places.get(*it).is_some_and(Option::is_none))
            .collect()
    }

    /// Returns a process that is neither stopped nor killed.
    pub(crate) fn any_that_runs(&self, random: &mut Random) -> Option<ProcessId> {
        let running = self.places.iter().flatten().filter(|it| it.is_running);
        let running: Vec<_> = running.map(|it| it.member.process).collect();
        random.pick(&running).copied()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.places.iter().flatten().map(|process| &process.member)
    }

    pub(crate) fn number(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// Gives all leases back, and lets all limiters wait until nothing is under way.
    pub(crate) fn drain(&self) {
        for member in self.members() {
            let drained = Arc::clone(member);
            self.executor.spawn(member.process, async move {
                for limiter in &drained.limiters.rates {
                    drained.must(limiter.drain(DRAINS_IN).await);
                }
                for limiter in &drained.limiters.in_flight {
                    drained.must(limiter.inner.drain(DRAINS_IN).await);
                }
            });
        }
    }

    /// Returns what should be over by now, and is not.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let tasks = self.members().filter_map(|member| {
            let (process, tasks) = (member.process, self.executor.tasks(member.process));
            (tasks > 0).then(|| format!("{tasks} tasks of {process} have not ended"))
        });
        let held = self.members().filter_map(|member| {
            let held: u64 = member.limiters.in_flight.iter().map(|it| it.inner.held()).sum();
            (held > 0).then(|| format!("{} holds {held} permits", member.process))
        });
        let lost = self.members().filter_map(|member| member.lost_otherwise());
        tasks.chain(held).chain(lost).collect()
    }

    fn find(&mut self, process: ProcessId) -> Option<&mut Process> {
        self.places.iter_mut().flatten().find(|it| it.member.process == process)
    }
}

impl Member {
    /// Lets the record know the keys that servers have for the limiters of the process.
    fn names_stored_keys(&self) -> Result<(), Error> {
        self.with_record(|record, _| {
            for (index, limiter) in self.limiters.rates.iter().enumerate() {
                // Tiers of other lengths have lists of their own.
                for policy in self.fleet.tiers(index) {
                    let tier = limiter.with_policy(policy)?;
                    for subject in subjects(index) {
                        record.is_stored_at(subject, tier.stored_keys(subject.name())?);
                    }
                }
            }
            for (number, limiter) in self.limiters.in_flight.iter().enumerate() {
                for subject in subjects(self.fleet.limiters() + number) {
                    let key = limiter.inner.stored_key(subject.name())?;
                    record.is_stored_at(subject, vec![key]);
                }
            }
            Ok(())
        })
    }

    /// Returns how the counters and events of lost permits disagree with what callers know.
    pub(crate) fn lost_otherwise(&self) -> Option<String> {
        self.limiters.in_flight.iter().enumerate().find_map(|(number, limiter)| {
            let known = self.with_record(|record, _| {
                let of = (self.process, self.fleet.limiters() + number);
                record.auditor.in_flight.lost.get(&of).copied().unwrap_or(0)
            });
            let (counted, events) =
                (limiter.inner.counters().permits_lost, limiter.lost.load(Relaxed));
            (counted != known || events != known).then(|| {
                format!(
                    "{} has counted {counted} lost permits, and reported {events}, of which callers know {known}",
                    self.process
                )
            })
        })
    }
}
