//! What has to hold after the faults have stopped: no check fails, each key is admitted at its limit again, and nothing is
//! left.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use limiter_core::{Algorithm, Cost, Limit, Policy};

use crate::{
    algorithms,
    fleet::{Fleet, Holding, window},
    processes::{Member, Target},
    sync::lock,
    traffic::{AtWork, Caller, enter},
    vocabulary::{Micros, SETTLES_IN, Subject, micros, subjects},
    world::World,
};

/// How long a call takes at most without faults, and what follows from its reply.
const CALL: Micros = 500_000;

/// How many checks of keys were admitted, and how many have failed.
type Seen = BTreeMap<Subject, (u64, u64)>;

impl World {
    /// Checks all that has to hold after the faults, in this order.
    pub(crate) fn finish(&mut self) {
        let fleet = Arc::clone(&self.processes.fleet);
        let longest_expiry = fleet.holding.iter().map(|it| it.expiry).max().unwrap_or(0);
        // Until then the last request has ended, and permits are gone that were not given back.
        self.run_for(SETTLES_IN + fleet.recovery().max(6 * longest_expiry) + self.stepped_back);
        let at_work = self.network.with_record(|record, _| record.auditor.in_flight.at_work());
        if at_work > 0 {
            self.violated(None, &format!("{at_work} requests have not ended"));
        }
        let steps = [Self::check_at_limits, Self::enter_up_to_limits, Self::drain];
        for step in steps {
            if !self.is_violated() {
                step(self, &fleet);
            }
        }
    }

    fn run_for(&self, time: Micros) {
        self.executor.run_until(self.executor.now() + time);
    }

    fn all_members(&self) -> Vec<Arc<Member>> {
        self.processes.members().cloned().collect()
    }

    /// Lets all processes check all keys again as soon as the wait of each is over, and counts what is admitted.
    fn check_at_limits(&mut self, fleet: &Fleet) {
        // The first windows are not counted, because bursts and leases make them differ, and breakers may be open.
        let (warm_up, measured) =
            (2 * fleet.longest_window() + 1_000_000, 6 * fleet.longest_window());
        let from = self.executor.now() + warm_up;
        let until = from + measured;
        let seen = Arc::new(Mutex::new(Seen::default()));
        for member in self.all_members() {
            for limiter in 0..fleet.limiters() {
                let tier = self.processes.tier(limiter);
                let Some(policy) = fleet.tiers(limiter).get(tier) else { continue };
                let callers = callers(policy, fleet, self.processes.number());
                for subject in subjects(limiter).flat_map(|it| vec![it; callers]) {
                    let (target, longest) = (Target { subject, tier }, window(policy) / 4);
                    let (member, seen) = (Arc::clone(&member), Arc::clone(&seen));
                    let mut caller = Caller::new(&member, self.random.fork());
                    self.executor.spawn(member.process, async move {
                        while member.now() < until {
                            let checked = caller.check(target, Cost::ONE).await;
                            let wait =
                                checked.map_or(longest, |it| it.retry_after().map_or(0, micros));
                            if member.now() >= from {
                                let mut seen = lock(&seen);
                                let (admitted, failed) = seen.entry(subject).or_default();
                                *admitted += u64::from(checked.is_some_and(|it| it.is_admitted()));
                                *failed += u64::from(checked.is_none());
                            }
                            let more = caller.random.below(200);
                            member.sleep(wait.min(longest).max(100) + more).await;
                        }
                    });
                }
            }
        }
        self.executor.run_until(until);
        let seen = lock(&seen);
        for (subject, (_, failed)) in seen.iter().filter(|(_, (_, failed))| *failed > 0) {
            let message = format!("{failed} checks failed after the faults had stopped");
            self.violated(Some(*subject), &message);
        }
        for limiter in 0..fleet.limiters() {
            let Some(policy) = fleet.tiers(limiter).get(self.processes.tier(limiter)) else {
                continue;
            };
            let least = least(policy, fleet, limiter, measured);
            for subject in subjects(limiter) {
                let admitted = seen.get(&subject).map_or(0, |(admitted, _)| *admitted);
                if admitted < least {
                    let message = format!(
                        "{admitted} permits were admitted in {measured} us after the faults had stopped, but {least} at \
                         least should have been"
                    );
                    self.violated(Some(subject), &message);
                }
            }
        }
    }

    /// Lets requests enter each key, in one process after the other, until one is refused.
    fn enter_up_to_limits(&mut self, fleet: &Fleet) {
        let members = self.all_members();
        // A call before its breaker's next probe is due closes nothing, and an open breaker lets one call through.
        for _ in 0..6 {
            for member in &members {
                let member = Arc::clone(member);
                self.executor.spawn(member.process, async move {
                    for limiter in &member.limiters.in_flight {
                        for subject in subjects(0) {
                            drop(limiter.inner.peek(subject.name()).await);
                        }
                    }
                });
            }
            self.run_for(CALL);
        }
        let held = Arc::new(Mutex::new(BTreeMap::<Subject, Vec<AtWork>>::new()));
        let most = fleet.holding.iter().map(|it| it.limit).max().unwrap_or(0);
        for member in members.iter().cycle().take(most as usize + 1) {
            for (number, holding) in fleet.holding.iter().enumerate() {
                for subject in subjects(fleet.limiters() + number) {
                    let (member, held) = (Arc::clone(member), Arc::clone(&held));
                    let limit = holding.limit;
                    self.executor.spawn(member.process, async move {
                        let entered = enter(&member, subject, limit, None).await;
                        let entered = entered.filter(|work| work.number.is_some());
                        lock(&held).entry(subject).or_default().extend(entered);
                    });
                }
            }
            self.run_for(CALL);
        }
        // Two expiries, in which permits are renewed and none is lost.
        let longest_expiry = fleet.holding.iter().map(|it| it.expiry).max().unwrap_or(0);
        self.run_for(2 * longest_expiry);
        let held = std::mem::take(&mut *lock(&held));
        for (number, Holding { limit, .. }) in fleet.holding.iter().enumerate() {
            for subject in subjects(fleet.limiters() + number) {
                let work = held.get(&subject).map_or(&[][..], Vec::as_slice);
                let lost = work.iter().filter(|it| it.permit_is_lost()).count();
                let entered = work.len();
                if entered != *limit as usize || lost > 0 {
                    let message = format!(
                        "{entered} requests have entered up to the limit {limit}, and lost {lost} permits"
                    );
                    self.violated(Some(subject), &message);
                }
            }
        }
    }

    /// Lets all limiters end what is under way, and checks that nothing is left, also at the servers.
    fn drain(&mut self, fleet: &Fleet) {
        self.processes.drain();
        self.run_for(SETTLES_IN);
        for message in self.processes.leftovers() {
            self.violated(None, &message);
        }
        // States last for up to twice the time in which they recover.
        self.run_for(2 * fleet.recovery() + self.stepped_back);
        let now = self.executor.now();
        for key in self.network.with_servers(|servers| servers.keys(now)) {
            let message = format!("a server still has {}", String::from_utf8_lossy(&key));
            self.violated(None, &message);
        }
    }
}

/// Returns how many callers of each process ask for twice the limit together, if each awaits its answers.
fn callers(policy: &Policy, fleet: &Fleet, processes: u32) -> usize {
    let permits = policy.limits().first().map_or(0, |limit| limit.quota().permits());
    let trip = 2 * fleet.trips.longest / u64::from(processes);
    1 + usize::try_from(2 * permits * trip / window(policy)).unwrap_or(0)
}

/// Returns how many permits a key has to be admitted at least in a time, under more requests than that.
fn least(policy: &Policy, fleet: &Fleet, limiter: usize, time: Micros) -> u64 {
    let limits = policy.limits();
    let percent = match limits {
        // Windows of several lengths don't begin together: while one is used up, what another one has left is lost when it
        // ends.
        [_, _, ..] => 60,
        // A sliding counter's room grows all the time, and a process that found little asks again only after half a lease.
        [limit] if fleet.leases(limiter) && limit.algorithm() == Algorithm::SlidingCounter => 90,
        // A permit that does not fit the lower ceiling of a slot fits the next one at the earliest.
        [limit] if algorithms::pace(limit).is_some() => 70,
        _ => 95,
    };
    // A caller that was refused asks again when a window or a paced slot begins, or when the next permit of a full key has
    // recovered. That arrives up to a round trip late, and for the answer of a process that found too little it is two.
    let late = if fleet.leases(limiter) { 4 } else { 2 } * fleet.trips.longest;
    let period = limits.iter().map(period).min().unwrap_or(0);
    let useful = time * period / (period + late);
    limits.iter().map(|limit| at_limit(limit, useful)).min().unwrap_or(0) * percent / 100
}

/// Returns how much time may pass until a request that was refused fits.
fn period(limit: &Limit) -> Micros {
    let (quota, window) = (limit.quota(), micros(limit.quota().window()));
    match limit.algorithm() {
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => window * quota.burst() / quota.permits(),
        _ => window / algorithms::pace(limit).unwrap_or(1),
    }
}

/// Returns how many permits a limit admits in a time.
fn at_limit(limit: &Limit, time: Micros) -> u64 {
    let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
    match limit.algorithm() {
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => permits * time / window,
        // An entry counts until its whole slot is out of a strict window.
        Algorithm::SubWindows(slots) if !slots.is_loose() => {
            permits * (time / (window + window.div_ceil(slots.number().into())))
        }
        // The last permit of a window fits when the window ends.
        Algorithm::SlidingCounter => (permits - 1) * (time / window),
        _ => permits * (time / window),
    }
}
