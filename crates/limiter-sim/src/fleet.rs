//! The policies of a run, and the limiters of each process.

mod policies;

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{Algorithm, Error, Fallback, MemoryLimiter, Policy};
use limiter_redis::{EventKind, RedisInFlight, RedisLimiter};

use crate::{
    algorithms,
    clock::ProcessClock,
    network::{SimClient, Trips},
    random::Random,
    record::Record,
    vocabulary::{HORIZON, Micros, micros, subjects},
};

/// How many policies take turns on the keys of each limiter.
pub(crate) const TIERS: usize = 3;

/// A limiter that decides by the process's share while the store fails.
pub(crate) type Share = Fallback<RedisLimiter<SimClient>, MemoryLimiter<ProcessClock>>;

/// The limiters of a process.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    pub(crate) rates: Vec<RedisLimiter<SimClient>>,
    /// For each of them, what decides by the process's share while the store fails, if it has one.
    pub(crate) shares: Vec<Option<Share>>,
    pub(crate) in_flight: Vec<InFlight>,
}

/// A limiter of requests in flight, and how many events have reported a lost permit.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) inner: RedisInFlight<SimClient>,
    pub(crate) lost: Arc<AtomicU64>,
}

/// What the limiters of requests in flight are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) limit: u32,
    pub(crate) expiry: Micros,
    /// Whether each process decides by its share while the store can't.
    shares: bool,
    /// How many of a thousand requests are held for longer than the expiry.
    long: u64,
}

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
    /// Whether work is charged afterwards, as in one of three seeds.
    pub(crate) charges: bool,
    pub(crate) holding: Vec<Holding>,
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

/// The names of the limiters of requests in flight.
const IN_FLIGHT: [&str; 2] = ["uploads", "exports"];

/// Sizes of tables: large ones, tiny ones, and no cache of denials.
const TABLES: [(usize, usize); 3] = [(10_000, 10_000), (2, 1), (0, 10_000)];

impl Fleet {
    /// Returns the fleet of a seed: two of five groups with random quotas, and limiters of requests in flight.
    pub(crate) fn new(random: &mut Random, processes: u32) -> Result<Self, Error> {
        let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
        let (trips, lengths) = match random.below(20) {
            0..2 => (Trips::FAR, Lengths::Long),
            2 => (Trips::FAR, Lengths::Normal),
            3 => (Trips::FAR, Lengths::Short),
            4..6 => (Trips::NEAR, Lengths::OfMany),
            _ => (Trips::NEAR, Lengths::Normal),
        };
        let two = |random: &mut Random| [(); 2].map(|()| algorithms::any(random.fork()));
        let [first, second, third] = [(); 3].map(|()| two(random));
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
        let chosen = [first, (first + random.between(1, 4)) % 5];
        let mut groups = Vec::new();
        for (number, (share, lease, algorithms)) in (0_u64..).zip(kinds) {
            if !chosen.contains(&number) {
                continue;
            }
            let limiters = (0_u64..).zip(algorithms).map(|(index, algorithm)| {
                let name = format!("limit-{number}-{index}");
                policies::tiers(random, &name, algorithm, lease.then_some(lengths))
            });
            let limiters = limiters.collect::<Result<_, _>>()?;
            let batching = random.below(4) > 0;
            let tables = *random.pick(&TABLES).unwrap_or(&TABLES[0]);
            groups.push(Group {
                lease,
                tuning: Tuning { share, lease, batching, tables },
                limiters,
            });
        }
        // A deadline is a third of the expiry at most.
        let least = (3 * trips.deadline).max(300_000);
        // Permits of one of them are few, and are lost by most faults that keep a process from its server.
        let kinds = [(3, 2 * least), (6, 2_000_000)];
        let holding = kinds.map(|(most, longest)| Holding {
            limit: u32::try_from(random.between(1, most)).unwrap_or(1),
            expiry: random.between(least, longest),
            shares: random.below(2) == 0,
            long: random.between(20, 300),
        });
        Ok(Self {
            groups,
            processes,
            trips,
            busy: random.between(300_000, 3_000_000),
            quiet: random.below(2_500_000),
            longest_pause: random.between(2_000, 100_000),
            charges: random.below(3) == 0,
            holding: holding.to_vec(),
        })
    }

    /// Returns the settings that processes have at first, for each group.
    pub(crate) fn tunings(&self) -> Vec<Tuning> {
        self.groups.iter().map(|group| group.tuning).collect()
    }

    /// Returns other settings of a group.
    pub(crate) fn other_tuning(&self, group: usize, random: &mut Random) -> Tuning {
        Tuning {
            share: (random.below(2) == 1).then_some(self.processes),
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
        let mut limiters = Limiters::default();
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
                limiters.shares.push(share.map(with_share).transpose()?);
                limiters.rates.push(limiter);
            }
        }
        for (name, holding) in IN_FLIGHT.into_iter().zip(&self.holding) {
            let lost = Arc::new(AtomicU64::new(0));
            let events = Arc::clone(&lost);
            let mut builder = RedisInFlight::builder(name, holding.limit)
                .expires_after(Duration::from_micros(holding.expiry))
                .deadline(Duration::from_micros(self.trips.deadline))
                .clock(clock.clone())
                .seed(random.next())
                .observer(move |event| {
                    let is_lost = matches!(event.kind(), EventKind::PermitLost);
                    events.fetch_add(u64::from(is_lost), Relaxed);
                });
            if holding.shares {
                builder = builder.local_share(self.processes);
            }
            limiters.in_flight.push(InFlight { inner: builder.build_on(client.clone())?, lost });
        }
        Ok(limiters)
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

    /// Returns the record of all keys.
    pub(crate) fn record(&self) -> Record {
        let mut record = Record::default();
        for (limiter, tiers) in self.all().enumerate() {
            let longest = tiers.iter().map(window).max().unwrap_or(0);
            let ahead = micros(HORIZON) + longest + self.trips.deadline;
            for subject in subjects(limiter) {
                let ahead = self.leases(limiter).then_some(ahead);
                record.auditor.add(subject, tiers, ahead);
                record.name(subject, name(tiers, subject.name()));
            }
        }
        for (number, Holding { limit, expiry, .. }) in self.holding.iter().enumerate() {
            for subject in subjects(self.limiters() + number) {
                let name = format!("{}, {limit} in flight, {expiry} us", subject.name());
                record.name(subject, name);
                record.auditor.in_flight.expiries.insert(subject.limiter, *expiry);
            }
        }
        record
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
}

impl Holding {
    /// Returns the limit that a request passes: that of the limiter, or now and then another one.
    pub(crate) fn limit_of_call(&self, random: &mut Random) -> u32 {
        match random.below(40) {
            0 => 0,
            1..5 => self.limit - 1,
            5..9 => self.limit + 1,
            9 => self.limit + 3,
            _ => self.limit,
        }
    }

    /// Returns for how long a request holds its permit.
    pub(crate) fn hold(&self, random: &mut Random) -> Micros {
        let expiry = self.expiry;
        match random.below(1_000) {
            place if place < self.long => random.between(expiry, 5 * expiry),
            place if place < 600 => random.below(expiry / 4),
            _ => random.between(expiry / 4, expiry),
        }
    }
}

/// Returns a name of a key for messages.
fn name(tiers: &[Policy], key: &str) -> String {
    let words = |policy: &Policy| {
        let limits: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
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
