//! The policies of a run, and the limiters of each process.

use std::{num::NonZeroU32, time::Duration};

use limiter_core::{Algorithm, Error, Policy, Quota, Slots};
use limiter_redis::{FailurePolicy, RedisLimiter};

use crate::{
    auditor::Auditor,
    clock::ProcessClock,
    network::SimClient,
    random::Random,
    series::Series,
    vocabulary::{DEADLINE, Micros, Subject},
    wrong::Wrong,
};

/// The keys of each limiter.
pub(crate) const KEYS: [&str; 2] = ["alice", "bob"];

/// Limiters with the same settings, which are siblings: lists of demands on them are one call.
#[derive(Clone, Debug)]
struct Group {
    failure: FailurePolicy,
    lease: bool,
    batching: bool,
    /// How many denials are cached, and of how many keys permits are leased.
    tables: (usize, usize),
    policies: Vec<Policy>,
}

/// The limiters that each process has.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    groups: Vec<Group>,
    /// For how long all callers ask, and then none does, so that keys recover and are then used up at once.
    busy: Micros,
    quiet: Micros,
    /// The longest pause of a caller.
    pub(crate) longest_pause: Micros,
    /// Whether a part of the processes have half of each quota by GCRA. By law 9, the bound is that of the whole.
    has_two_quotas: bool,
}

/// Sizes of tables: large ones, tiny ones, and no cache of denials.
const TABLES: [(usize, usize); 3] = [(10_000, 10_000), (2, 1), (0, 10_000)];

/// How far ahead permits may be reserved.
const HORIZON: Duration = Duration::from_secs(1);

impl Fleet {
    /// Returns the fleet of a seed: two of five groups, with random quotas. That of a wrong world has only the limiters that
    /// it concerns.
    pub(crate) fn new(
        random: &mut Random,
        processes: u32,
        wrong: Option<Wrong>,
    ) -> Result<Self, Error> {
        let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
        let slots = Slots::try_strict(u32::try_from(random.between(2, 6)).unwrap_or(2))?;
        let kinds = [
            (
                FailurePolicy::ReturnError,
                false,
                vec![Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingLog],
            ),
            (
                FailurePolicy::Allow,
                false,
                vec![Algorithm::SlidingCounter, Algorithm::SubWindows(slots)],
            ),
            (FailurePolicy::Local { processes }, true, vec![Algorithm::Gcra]),
            (FailurePolicy::Deny, true, vec![Algorithm::FixedWindow, Algorithm::SlidingCounter]),
            (FailurePolicy::ReturnError, true, vec![Algorithm::Gcra, Algorithm::AlignedWindow]),
        ];
        let concern = wrong.and_then(Wrong::concern);
        let first = random.below(5);
        let two = [first, (first + random.between(1, 4)) % 5];
        let one = concern.and_then(|concern| random.pick(concern.groups));
        let chosen = one.map_or(two.as_slice(), std::slice::from_ref);
        let mut groups = Vec::new();
        for (number, (failure, lease, mut algorithms)) in (0_u64..).zip(kinds) {
            if !chosen.contains(&number) {
                continue;
            }
            if concern.is_some_and(|concern| concern.is_for_gcra_alone) {
                algorithms.retain(|algorithm| *algorithm == Algorithm::Gcra);
            }
            let policies = (0_u64..).zip(algorithms).map(|(index, algorithm)| {
                policy(random, &format!("limit-{number}-{index}"), algorithm, lease)
            });
            let policies = policies.collect::<Result<_, _>>()?;
            let batching = random.below(4) > 0;
            let tables = *random.pick(&TABLES).unwrap_or(&TABLES[0]);
            groups.push(Group { failure, lease, batching, tables, policies });
        }
        let (busy, quiet) = (random.between(300_000, 3_000_000), random.below(2_500_000));
        let has_two_quotas = wrong == Some(Wrong::ForgivesOtherDebts);
        let longest_pause = random.between(2_000, 100_000);
        Ok(Self { groups, busy, quiet, longest_pause, has_two_quotas })
    }

    /// Returns the limiters of a process, in the order of the policies.
    pub(crate) fn limiters(
        &self,
        client: &SimClient,
        clock: &ProcessClock,
        random: &mut Random,
    ) -> Result<Vec<RedisLimiter<SimClient>>, Error> {
        let mut limiters = Vec::new();
        for Group { failure, lease, batching, tables: (denials, lease_keys), policies } in
            &self.groups
        {
            let mut policies = policies.clone();
            if self.has_two_quotas && random.below(2) == 0 {
                policies = policies.iter().map(halved).collect::<Result<_, _>>()?;
            }
            let Some((first, others)) = policies.split_first() else { continue };
            let first = RedisLimiter::builder(first.clone())
                .deadline(Duration::from_micros(DEADLINE))
                .failure_policy(*failure)
                // Some processes share keys with those that lease, and don't lease themselves: they charge up to the
                // whole capacity, of which leases keep something back.
                .lease(*lease && random.below(3) > 0)
                .batching(*batching)
                .denial_cache(*denials)
                .lease_keys(*lease_keys)
                .clock(clock.clone())
                .seed(random.next())
                .build_on(client.clone())?;
            let others = others.iter().map(|policy| first.sibling(policy));
            let others = others.collect::<Result<Vec<_>, _>>()?;
            limiters.push(first);
            limiters.extend(others);
        }
        Ok(limiters)
    }

    /// Returns all policies.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.groups.iter().flat_map(|group| &group.policies)
    }

    /// Returns an auditor of all keys, and their names.
    pub(crate) fn auditor(&self) -> (Auditor, Vec<String>) {
        let (mut auditor, mut names) = (Auditor::default(), Vec::new());
        for group in &self.groups {
            let processes = match group.failure {
                FailurePolicy::Local { processes } => Some(processes.get().into()),
                _ => None,
            };
            for policy in &group.policies {
                for key in KEYS {
                    auditor.add(policy, micros(HORIZON) + window(policy) + DEADLINE, processes);
                    names.push(name(policy, key));
                }
            }
        }
        (auditor, names)
    }

    /// Returns the empty series of a key of the first limiter by GCRA, up to a time.
    pub(crate) fn series(&self, until: Micros) -> Option<Series> {
        let by_gcra = |policy: &&Policy| {
            policy.limits().iter().all(|limit| limit.algorithm() == Algorithm::Gcra)
        };
        let limiter = self.policies().position(|policy| by_gcra(&policy))?;
        let quota = self.policies().nth(limiter)?.limits().first()?.quota();
        let numbers = (quota.burst(), quota.permits(), micros(quota.window()));
        Some(Series::new(subject(limiter, 0), numbers, until))
    }

    /// Returns for how long no caller asks, from `now` on.
    pub(crate) fn quiet_for(&self, now: Micros) -> Micros {
        let all = self.busy + self.quiet;
        let left = all - now % all;
        if left <= self.quiet { left } else { 0 }
    }

    /// Returns whether a limiter leases permits.
    pub(crate) fn leases(&self, limiter: usize) -> bool {
        let leases = |group: &Group| vec![group.lease; group.policies.len()];
        self.groups.iter().flat_map(leases).nth(limiter).unwrap_or(false)
    }

    /// Returns the longest time after which each key has recovered from any debt, also after a clock that stepped back.
    pub(crate) fn recovery(&self) -> Micros {
        let recovery = |policy: &Policy| {
            let bursts = policy.limits().iter().map(|limit| {
                let quota = limit.quota();
                window(policy) * (quota.burst().div_ceil(quota.permits()) + 1)
            });
            bursts.max().unwrap_or(0) + micros(HORIZON)
        };
        self.policies().map(recovery).max().unwrap_or(0)
    }

    /// Returns the longest time for which a process may hold a lease.
    pub(crate) fn longest_lease(&self) -> Micros {
        self.policies().map(window).max().unwrap_or(0).max(1_000_000)
    }
}

/// Returns the subject of a key of a limiter.
pub(crate) const fn subject(limiter: usize, key: usize) -> Subject {
    Subject(limiter * KEYS.len() + key)
}

/// Returns a name of a key for messages.
fn name(policy: &Policy, key: &str) -> String {
    let limits = policy.limits().iter().map(|it| format!("{} by {:?}", it.quota(), it.algorithm()));
    format!("{key} of {}, {}", policy.name(), limits.collect::<String>())
}

/// Returns the window of a policy's limit.
pub(crate) fn window(policy: &Policy) -> Micros {
    policy.limits().first().map_or(0, |limit| micros(limit.quota().window()))
}

pub(crate) fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a policy with a random quota, of which permits are leased if so wished.
fn policy(
    random: &mut Random,
    name: &str,
    algorithm: Algorithm,
    lease: bool,
) -> Result<Policy, Error> {
    let permits = if lease { random.between(64, 200) } else { random.between(2, 30) };
    let millis = if lease { random.between(500, 1_500) } else { random.between(200, 1_500) };
    let quota = Quota::new(permits, Duration::from_millis(millis))?;
    let quota = match algorithm {
        Algorithm::Gcra if lease => quota.try_with_burst(random.between(64, 200))?,
        Algorithm::Gcra => quota.try_with_burst(random.between(1, 30))?,
        _ => quota,
    };
    Policy::new(name, algorithm, quota)?.with_horizon(HORIZON)
}

/// Returns a policy by GCRA with half of its quota.
fn halved(policy: &Policy) -> Result<Policy, Error> {
    let Some(limit) = policy.limits().first() else { return Ok(policy.clone()) };
    let quota = limit.quota();
    if limit.algorithm() != Algorithm::Gcra {
        return Ok(policy.clone());
    }
    let half = Quota::new((quota.permits() / 2).max(1), quota.window())?;
    let half = half.try_with_burst((quota.burst() / 2).max(1))?;
    Policy::new(policy.name(), Algorithm::Gcra, half)?.with_horizon(HORIZON)
}
