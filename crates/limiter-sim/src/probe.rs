//! Whether each key is admitted at its limit again after the faults have stopped.

mod calls;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Algorithm, Limit, Policy};

pub(crate) use self::calls::Calls;
use self::calls::{QUARTERS, most_calls};
use crate::{
    algorithms,
    executor::Executor,
    fleet::{Fleet, micros, window},
    processes::Processes,
    random::Random,
    records::{Answer, End, Question},
    sync::lock,
    traffic::{Member, Target},
    vocabulary::{KEYS, Micros, Subject, subject},
};

/// The probes of all keys.
pub(crate) struct Probes {
    /// How many permits of each key were admitted while they were counted.
    admitted: Arc<Mutex<BTreeMap<(usize, usize), u64>>>,
    /// How many checks of each key have failed meanwhile.
    failed: Arc<Mutex<BTreeMap<(usize, usize), u64>>>,
    measured: Micros,
    /// When admissions and calls are counted.
    pub(crate) from: Micros,
    pub(crate) until: Micros,
}

/// How many percent of its limit a key has to be admitted at.
const LEAST: u64 = 95;

/// The same for a sliding counter of which permits are leased. Its room grows all the time, and a process that found
/// little asks again only after half a lease; what is left when the window ends is lost.
const LEAST_OF_LEASED_COUNTERS: u64 = 90;

/// The same for strict slots that are paced: a permit recovers a slot later than those of a window, and if the ceiling of
/// that slot is lower by one, it fits the next slot at the earliest. That costs up to 22 % with two permits in six slots.
const LEAST_OF_PACED: u64 = 70;

/// The same for several limits, compared with the slowest of them. Windows of several lengths don't begin together: while
/// one of them is used up, what another one has left is lost when that ends.
const LEAST_OF_SEVERAL: u64 = 60;

/// Starts a probe of each key in each process.
///
/// A probe checks its key again as soon as the key's wait is over. The first windows are not counted, because bursts
/// and leases make them differ.
pub(crate) fn start(processes: &Processes, executor: &Executor, random: &mut Random) -> Probes {
    let longest = processes.fleet.longest_window();
    let (warm_up, measured) = (2 * longest, 6 * longest);
    let from = executor.now() + warm_up;
    let probes = Probes {
        admitted: Arc::default(),
        failed: Arc::default(),
        measured,
        from,
        until: from + measured,
    };
    let trip = processes.fleet.trips.there_and_back();
    for member in processes.members() {
        for limiter in 0..processes.fleet.limiters() {
            let tier = processes.tier(limiter);
            let Some(policy) = processes.fleet.tiers(limiter).get(tier) else { continue };
            let callers = callers(policy, trip / u64::from(processes.number()));
            for caller in 0..KEYS.len() * callers {
                let key = caller % KEYS.len();
                let target = Target { limiter, key, tier };
                let (member, admitted) = (Arc::clone(member), Arc::clone(&probes.admitted));
                let failed = Arc::clone(&probes.failed);
                let (executor, until) = (executor.clone(), probes.until);
                let (mut random, window) = (random.fork(), window(policy));
                executor.clone().spawn(member.process, async move {
                    while executor.now() < until {
                        let (is_admitted, wait) = ask(&member, target).await;
                        let counted = match is_admitted {
                            Some(true) => &admitted,
                            Some(false) => &Arc::default(),
                            None => &failed,
                        };
                        if executor.now() >= from {
                            *lock(counted).entry((limiter, key)).or_default() += 1;
                        }
                        let wait = wait.min(window / QUARTERS).max(100);
                        member.sleep(wait + random.below(200)).await;
                    }
                });
            }
        }
    }
    probes
}

/// Returns how many callers ask for twice the limit together, if each awaits its answer for so long.
fn callers(policy: &Policy, trip: Micros) -> usize {
    let permits = policy.limits().first().map_or(0, |limit| limit.quota().permits());
    1 + usize::try_from(2 * permits * trip / window(policy)).unwrap_or(0)
}

/// Checks a key, and returns whether it was admitted, if that did not fail, and how long to wait for the next check.
async fn ask(member: &Member, target: Target) -> (Option<bool>, Micros) {
    let Target { limiter, tier, .. } = target;
    let Some(handle) = member.handle(target) else { return (None, Micros::MAX) };
    let is_direct = !member.leases(limiter);
    let question = Question { operation: "probe", permits: 1, tier, is_direct };
    let operation = member.with_records(|records, moment| {
        records.asks(moment, member.process, target.subject(), question)
    });
    let answer = handle.check(&target.key()).await;
    member.with_records(|records, moment| match answer {
        Ok(decision) => {
            let (permits, wait) = (decision.is_admitted().then_some(1), decision.retry_after());
            let (source, named) = (decision.source(), wait.map(micros));
            let answer = Answer { source, permits, delay: 0, wait: named, of_request: None };
            records.decides(moment, &operation, answer);
            records.ends(moment, &operation, End::Answered);
            let wait = wait.unwrap_or(Duration::ZERO);
            (Some(decision.is_admitted()), micros(wait))
        }
        Err(error) => {
            records.ends(moment, &operation, End::Failed(&error));
            (None, 10_000)
        }
    })
}

impl Probes {
    /// Returns the keys that were admitted too seldom, and those whose checks have failed.
    pub(crate) fn failures(&self, processes: &Processes) -> Vec<(Subject, String)> {
        let (admitted, failed) = (lock(&self.admitted), lock(&self.failed));
        let mut failures = Vec::new();
        let fleet = &processes.fleet;
        for limiter in 0..fleet.limiters() {
            let Some(policy) = fleet.tiers(limiter).get(processes.tier(limiter)) else { continue };
            let is_counter = |limit: &Limit| limit.algorithm() == Algorithm::SlidingCounter;
            let percent = match policy.limits() {
                [_, _, ..] => LEAST_OF_SEVERAL,
                [limit] if fleet.leases(limiter) && is_counter(limit) => LEAST_OF_LEASED_COUNTERS,
                [limit] if is_strict_and_paced(limit) => LEAST_OF_PACED,
                _ => LEAST,
            };
            for key in 0..KEYS.len() {
                let seen = admitted.get(&(limiter, key)).copied().unwrap_or(0);
                let useful = useful(policy, fleet, limiter, self.measured);
                let least = expected(policy, useful) * percent / 100;
                if seen < least {
                    let message = format!(
                        "{seen} permits were admitted in {} us after the faults had stopped, but {least} at least \
                         should have been",
                        self.measured
                    );
                    failures.push((subject(limiter, key), message));
                }
                let may_fail = takes_two_trips(policy, fleet, limiter) && !fleet.trips.fit_twice();
                if let Some(failed) = failed.get(&(limiter, key)).filter(|_| !may_fail) {
                    let message = format!("{failed} checks failed after the faults had stopped");
                    failures.push((subject(limiter, key), message));
                }
            }
        }
        failures
    }
}

const fn is_strict_and_paced(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::SubWindows(it) if it.is_paced() && !it.is_loose())
}

/// Returns whether a check may take two round trips, although all states are by one quota: a log decides a cost that waits
/// for several entries by the script of policies, and a caller may come while a lease is asked for that has too little.
fn takes_two_trips(policy: &Policy, fleet: &Fleet, limiter: usize) -> bool {
    let is_log = |limit: &Limit| {
        matches!(limit.algorithm(), Algorithm::SlidingLog | Algorithm::SubWindows(_))
    };
    fleet.leases(limiter) || policy.limits().iter().any(is_log)
}

/// Returns the keys about which a process called too often, by the calls before and after the probes.
pub(crate) fn restless(
    probes: &Probes,
    processes: &Processes,
    before: &Calls,
    after: &Calls,
) -> Vec<(Subject, String)> {
    let mut found = Vec::new();
    for limiter in 0..processes.fleet.limiters() {
        let tiers = processes.fleet.tiers(limiter);
        let Some(policy) = tiers.get(processes.tier(limiter)) else { continue };
        let trip = processes.fleet.trips.there_and_back() / u64::from(processes.number());
        let most = most_calls(policy, callers(policy, trip) as u64, probes.measured);
        for subject in (0..KEYS.len()).map(|key| subject(limiter, key)) {
            for ((process, _), calls) in after.iter().filter(|((_, of), _)| *of == subject) {
                let calls = calls - before.get(&(*process, subject)).copied().unwrap_or(0);
                if calls > most {
                    let message = format!(
                        "{process} has sent {calls} calls in {} us to a key whose limit is used up, but {most} at most are \
                         needed",
                        probes.measured
                    );
                    found.push((subject, message));
                }
            }
        }
    }
    found
}

/// Returns the part of a time in which requests arrive as soon as they fit.
///
/// A caller that was refused asks again when a window or a paced slot begins, or when the next permit of a full key has
/// recovered. That arrives up to a round trip late, and for the answer of a process that found too little it is two.
fn useful(policy: &Policy, fleet: &Fleet, limiter: usize, time: Micros) -> Micros {
    let trips = if fleet.leases(limiter) { 2 } else { 1 };
    let late = trips * fleet.trips.there_and_back();
    let periods = policy.limits().iter().map(|limit| {
        let (quota, window) = (limit.quota(), micros(limit.quota().window()));
        match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                window * quota.burst() / quota.permits()
            }
            Algorithm::SubWindows(_) => window / algorithms::pace(limit).unwrap_or(1),
            Algorithm::FixedWindow
            | Algorithm::AlignedWindow
            | Algorithm::SlidingCounter
            | Algorithm::SlidingLog => window,
        }
    });
    let period = periods.min().unwrap_or(0);
    time * period / (period + late)
}

/// Returns how many permits a key admits in a time, under more requests than that: the fewest that one of its limits does.
fn expected(policy: &Policy, time: Micros) -> u64 {
    policy.limits().iter().map(|limit| expected_by(limit, time)).min().unwrap_or(0)
}

fn expected_by(limit: &Limit, time: Micros) -> u64 {
    let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
    match limit.algorithm() {
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => permits * time / window,
        // An entry counts until its whole slot is out of a strict window.
        Algorithm::SubWindows(slots) if !slots.is_loose() => {
            permits * (time / (window + window.div_ceil(slots.number().into())))
        }
        // The last permit of a window fits when the window ends.
        Algorithm::SlidingCounter => (permits - 1) * (time / window),
        Algorithm::FixedWindow
        | Algorithm::AlignedWindow
        | Algorithm::SubWindows(_)
        | Algorithm::SlidingLog => permits * (time / window),
    }
}
