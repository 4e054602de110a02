//! The policies of a run, and the limiters of each process.

mod in_flight;
mod policies;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use limiter_core::{Algorithm, Error, Fallback, Limit, MemoryLimiter, Policy};
use limiter_redis::RedisLimiter;

use crate::{
    algorithms,
    auditor::Auditor,
    clock::ProcessClock,
    in_flight_plan,
    network::SimClient,
    random::Random,
    trips::Trips,
    vocabulary::{HORIZON, KEYS, Micros},
    wrong::{Concern, Wrong},
};

/// How many policies take turns on the keys of each limiter.
pub(crate) const TIERS: usize = 3;

/// A limiter that decides by the process's share while the store fails.
pub(crate) type Share = Fallback<RedisLimiter<SimClient>, MemoryLimiter<ProcessClock>>;

/// The limiters of a process, and the share that each of them may have.
type Limiters = (Vec<RedisLimiter<SimClient>>, Vec<Option<Share>>);

/// Limiters with the same settings, which are siblings: lists of demands on them are one call.
#[derive(Clone, Debug)]
struct Group {
    lease: bool,
    /// Those of the processes at first.
    tuning: Tuning,
    /// For each limiter, the policies that take turns.
    limiters: Vec<Vec<Policy>>,
}

/// The settings of a process for a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// How many processes share the store, if this one decides by its share while the store can't.
    share: Option<NonZeroU32>,
    lease: bool,
    batching: bool,
    /// How many denials are cached, and of how many keys permits are leased.
    tables: (usize, usize),
}

/// The limiters that each process has.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    groups: Vec<Group>,
    processes: NonZeroU32,
    pub(crate) trips: Trips,
    /// For how long all callers ask, and then none does, so that keys recover and are then used up at once.
    busy: Micros,
    quiet: Micros,
    /// The longest pause of a caller.
    pub(crate) longest_pause: Micros,
    /// Whether work is charged afterwards: in one of three seeds, because that excuses much of what is leased.
    pub(crate) charges: bool,
    /// The requests in flight of the processes, whose callers enter in place of asking limiters.
    pub(crate) in_flight: Option<Arc<in_flight_plan::Plan>>,
}

/// How long the windows are of which permits are leased, and so the leases: a quarter of that.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lengths {
    Normal,
    /// Leases longer than several trips to a far server.
    Long,
    /// Leases shorter than a trip to a far server.
    Short,
    /// Leases of so many permits that some are granted for later.
    OfMany,
}

/// Sizes of tables: large ones, tiny ones, and no cache of denials.
const TABLES: [(usize, usize); 3] = [(10_000, 10_000), (2, 1), (0, 10_000)];

impl Fleet {
    /// Returns the fleet of a seed: two of five groups, with random quotas. That of a wrong world has only the limiters that
    /// it concerns, and its server is near.
    pub(crate) fn new(
        random: &mut Random,
        processes: u32,
        wrong: Option<Wrong>,
    ) -> Result<Self, Error> {
        let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
        let concern = wrong.and_then(Wrong::concern);
        let (trips, lengths) = match random.below(20) {
            _ if concern.is_some() => (Trips::NEAR, Lengths::Normal),
            0..2 => (Trips::FAR, Lengths::Long),
            2 => (Trips::FAR, Lengths::Normal),
            3 => (Trips::FAR, Lengths::Short),
            4 => (Trips::TIGHT, Lengths::Normal),
            5..7 => (Trips::NEAR, Lengths::OfMany),
            _ => (Trips::NEAR, Lengths::Normal),
        };
        let mut two = || {
            let mut random = random.fork();
            [(); 2].map(|()| algorithms::any(random.fork()))
        };
        let [first, second, third] = [(); 3].map(|()| two());
        let with_gcra = |others: [Algorithm; 2]| [&[Algorithm::Gcra][..], &others].concat();
        let kinds = [
            (None, false, with_gcra(first)),
            (None, false, second.to_vec()),
            (Some(processes), random.below(2) == 0, with_gcra(third)),
            // The algorithms by which permits are leased.
            (None, true, vec![Algorithm::FixedWindow, Algorithm::SlidingCounter]),
            (None, true, vec![Algorithm::Gcra, Algorithm::AlignedWindow]),
        ];
        let first = random.below(5);
        let two = [first, (first + random.between(1, 4)) % 5];
        let one = concern.and_then(|concern| random.pick(concern.groups));
        let chosen = one.map_or(two.as_slice(), std::slice::from_ref);
        let mut groups = Vec::new();
        for (number, (share, lease, mut algorithms)) in (0_u64..).zip(kinds) {
            if !chosen.contains(&number) {
                continue;
            }
            if concern.is_some_and(|concern| concern.is_for_gcra_alone) {
                algorithms.retain(|algorithm| *algorithm == Algorithm::Gcra);
            }
            let limiters = (0_u64..).zip(algorithms).map(|(index, algorithm)| {
                let name = format!("limit-{number}-{index}");
                policies::tiers(random, &name, algorithm, lease.then_some(lengths))
            });
            let limiters = limiters.collect::<Result<_, _>>()?;
            let batching = random.below(4) > 0;
            let tables = *random.pick(&TABLES).unwrap_or(&TABLES[0]);
            let tuning = Tuning { share, lease, batching, tables };
            groups.push(Group { lease, tuning, limiters });
        }
        let (busy, quiet) = (random.between(300_000, 3_000_000), random.below(2_500_000));
        let longest_pause = random.between(2_000, 100_000);
        let charges = random.below(3) == 0;
        let mut fleet =
            Self { groups, processes, trips, busy, quiet, longest_pause, charges, in_flight: None };
        if let Some(concern) = concern {
            fleet.suit(concern, random);
        }
        Ok(fleet)
    }

    /// Changes the traffic to one by which a wrong variant is found sooner.
    fn suit(&mut self, concern: Concern, random: &mut Random) {
        self.charges = false;
        for (time, range) in [
            (&mut self.longest_pause, concern.longest_pause),
            (&mut self.busy, concern.busy),
            (&mut self.quiet, concern.quiet),
        ] {
            if let Some((least, most)) = range {
                *time = random.between(least, most);
            }
        }
    }

    /// Returns the settings that processes have at first, for each group.
    pub(crate) fn tunings(&self) -> Vec<Tuning> {
        self.groups.iter().map(|group| group.tuning).collect()
    }

    /// Returns other settings of a group.
    pub(crate) fn other_tuning(&self, group: usize, random: &mut Random) -> Tuning {
        let processes = self.processes;
        let shares = [None, Some(processes)];
        let share = random.pick(&shares).copied().flatten();
        Tuning {
            share,
            lease: self.groups.get(group).is_some_and(|it| it.lease) && random.below(2) == 0,
            batching: random.below(2) == 0,
            tables: *random.pick(&TABLES).unwrap_or(&TABLES[0]),
        }
    }

    /// Returns the limiters of a process, in the order of the policies.
    pub(crate) fn build(
        &self,
        tunings: &[Tuning],
        client: &SimClient,
        clock: &ProcessClock,
        random: &mut Random,
    ) -> Result<Limiters, Error> {
        let (mut limiters, mut shares) = (Vec::new(), Vec::new());
        for (group, tuning) in self.groups.iter().zip(tunings) {
            let Tuning { share, lease, batching, tables: (denials, lease_keys) } = *tuning;
            let mut policies = group.limiters.iter().filter_map(|tiers| tiers.first());
            let Some(first) = policies.next() else { continue };
            let builder = RedisLimiter::builder(first.clone())
                .deadline(Duration::from_micros(self.trips.deadline))
                // Some processes share keys with those that lease, and don't lease themselves: they charge up to the
                // whole capacity, of which leases keep something back.
                .lease(lease && random.below(3) > 0)
                .batching(batching)
                .denial_cache(denials)
                .lease_keys(lease_keys)
                .clock(clock.clone())
                .seed(random.next());
            let first = builder.build_on(client.clone())?;
            let others = policies.map(|policy| first.sibling(policy));
            let others = others.collect::<Result<Vec<_>, _>>()?;
            for limiter in std::iter::once(first).chain(others) {
                let with_share = |processes| {
                    let local = MemoryLimiter::builder(limiter.policy().clone());
                    let local = local.clock(clock.clone()).build()?;
                    Fallback::new(limiter.clone()).with(local).sharing(processes)
                };
                shares.push(share.map(with_share).transpose()?);
                limiters.push(limiter);
            }
        }
        Ok((limiters, shares))
    }

    /// Returns the policies of all limiters.
    fn all(&self) -> impl Iterator<Item = &Vec<Policy>> {
        self.groups.iter().flat_map(|group| &group.limiters)
    }

    /// Returns how many limiters there are.
    pub(crate) fn limiters(&self) -> usize {
        self.all().count()
    }

    /// Returns the policies that take turns on the keys of a limiter.
    pub(crate) fn tiers(&self, limiter: usize) -> &[Policy] {
        self.all().nth(limiter).map_or(&[], |tiers| tiers)
    }

    /// Returns an auditor of all keys, and their names.
    pub(crate) fn auditor(&self) -> (Auditor, Vec<String>) {
        let (mut auditor, mut names) = (Auditor::default(), Vec::new());
        let processes = Some(self.processes.get().into());
        for group in &self.groups {
            for tiers in &group.limiters {
                let longest = tiers.iter().map(window).max().unwrap_or(0);
                for key in KEYS {
                    let ahead = micros(HORIZON) + longest + self.trips.deadline;
                    auditor.add(tiers, ahead, group.lease, processes);
                    names.push(name(tiers, key));
                }
            }
        }
        for kind in self.in_flight.iter().flat_map(|plan| &plan.limiters) {
            let in_flight = format!("{} in flight, {} us", kind.limit, kind.expiry);
            names.extend(KEYS.map(|key| format!("{key}, {}, {in_flight}", kind.name)));
        }
        (auditor, names)
    }

    /// Returns for how long no caller asks, from `now` on.
    pub(crate) fn quiet_for(&self, now: Micros) -> Micros {
        let all = self.busy + self.quiet;
        let left = all - now % all;
        if left <= self.quiet { left } else { 0 }
    }

    /// Returns whether a limiter leases permits.
    pub(crate) fn leases(&self, limiter: usize) -> bool {
        let leases = |group: &Group| vec![group.lease; group.limiters.len()];
        self.groups.iter().flat_map(leases).nth(limiter).unwrap_or(false)
    }

    /// Returns the longest time after which each key has recovered from any debt, also after a clock that stepped back.
    pub(crate) fn recovery(&self) -> Micros {
        let limits = self.all().flatten().flat_map(Policy::limits);
        let recovery = limits.map(|limit| {
            let quota = limit.quota();
            micros(quota.window()) * (quota.burst().div_ceil(quota.permits()) + 1)
        });
        recovery.max().unwrap_or(0) + micros(HORIZON)
    }

    /// Returns the longest window.
    pub(crate) fn longest_window(&self) -> Micros {
        self.all().flatten().map(window).max().unwrap_or(0)
    }

    /// Returns the longest time for which a process may hold a lease.
    pub(crate) fn longest_lease(&self) -> Micros {
        self.longest_window().max(1_000_000)
    }
}

/// Returns a name of a key for messages.
fn name(tiers: &[Policy], key: &str) -> String {
    let limit = |limit: &Limit| format!("{} by {:?}", limit.quota(), limit.algorithm());
    let words = |policy: &Policy| {
        let limits: Vec<String> = policy.limits().iter().map(limit).collect();
        limits.join(" and ")
    };
    let tiers: Vec<String> = tiers.iter().map(words).collect();
    format!("{key}, {}", tiers.join(", in turn with "))
}

/// Returns the longest window of a policy's limits.
pub(crate) fn window(policy: &Policy) -> Micros {
    let windows = policy.limits().iter().map(|limit| micros(limit.quota().window()));
    windows.max().unwrap_or(0)
}

pub(crate) fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
