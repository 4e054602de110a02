//! What processes ask of the limiters that are compared.

use std::{fmt, time::Duration};

use limiter_core::{Algorithm, Error, Limit, Policy, Quota};

use crate::{fleet::micros, random::Random, trips::Trips, vocabulary::Micros};

/// A load, without faults.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(super) policy: Policy,
    /// Whether each process leases where leases are compared.
    pub(super) leases: Vec<bool>,
    pub(super) keys: u64,
    pub(super) trips: Trips,
    pub(super) arrivals: Arrivals,
    pub(super) lasts: Micros,
}

/// When processes ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrivals {
    /// At random moments, all processes together so many hundredths of the limit.
    Even(u64),
    /// The same, all of a second within its first 200 ms.
    Bursts(u64),
    /// So many tasks of each process, which ask again up to 1 ms after an answer, or 10 ms after a refusal.
    Tasks(u64),
}

/// The quotas of loads: permits, seconds, and the burst by GCRA.
const QUOTAS: [(u64, u64, u64); 6] = [
    (2_000, 1, 100),
    (2_000, 1, 2_000),
    (400, 1, 400),
    (6_000, 60, 1_000),
    (100_000, 3_600, 1_000),
    (100, 86_400, 100),
];

/// How many permits of a key a process holds at most, at the pace of these loads.
const HELD: u64 = 16;

/// The quota of keys that are asked in turn.
const OF_MANY_KEYS: (u64, u64, u64) = (1_000, 1, 1_000);

impl Load {
    /// Returns the load of a seed.
    pub(crate) fn new(seed: u64) -> Result<Self, Error> {
        let mut random = Random::new(seed);
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::Gcra,
            Algorithm::FixedWindow,
            Algorithm::AlignedWindow,
            Algorithm::SlidingCounter,
        ];
        let algorithm = *random.pick(&algorithms).unwrap_or(&Algorithm::Gcra);
        let has_many_keys = random.below(5) == 0;
        let (permits, seconds, burst) = match has_many_keys {
            true => OF_MANY_KEYS,
            false => *random.pick(&QUOTAS).unwrap_or(&OF_MANY_KEYS),
        };
        let quota = Quota::new(permits, Duration::from_secs(seconds))?;
        let quota = match algorithm {
            Algorithm::Gcra => quota.try_with_burst(burst)?,
            _ => quota,
        };
        let processes = random.between(1, 6);
        // Some have no leases, as in a fleet that is being changed.
        let plain = if random.below(2) == 0 { random.below(processes) } else { 0 };
        let leases = (0..processes).map(|number| number >= plain).collect();
        let shortest = *random.pick(&[100, 100, 500, 2_500, 7_500, 20_000]).unwrap_or(&100);
        let (longest, deadline) = (shortest + 400, 50_000.max(5 * shortest));
        let trips = Trips { shortest, longest, deadline };
        let percent = *random.pick(&[30, 90, 150, 1_000]).unwrap_or(&90);
        let arrivals = match random.below(4) {
            0 => Arrivals::Bursts(percent),
            1 => Arrivals::Tasks(random.between(5, 50)),
            _ => Arrivals::Even(percent),
        };
        let keys = match has_many_keys {
            true => random.between(2_000, 20_000),
            false => random.between(1, 3),
        };
        let lasts = match arrivals {
            Arrivals::Tasks(_) if has_many_keys => 500_000,
            Arrivals::Tasks(_) => 4_000_000,
            _ => 1_000_000 * (seconds * 2).clamp(4, 60),
        };
        let policy = Policy::new("load", algorithm, quota)?;
        Ok(Self { policy, leases, keys, trips, arrivals, lasts })
    }

    /// Returns a load of processes that lease and of others that don't, of which each asks for the whole limit.
    #[cfg(test)]
    pub(super) fn mixture(policy: &Policy, leased: u64, plain: u64) -> Self {
        let leases: Vec<_> = (0..leased + plain).map(|number| number >= plain).collect();
        let trips = Trips { shortest: 100, longest: 500, deadline: 50_000 };
        let arrivals = Arrivals::Even(100 * (leased + plain));
        Self { policy: policy.clone(), leases, keys: 1, trips, arrivals, lasts: 8_000_000 }
    }

    fn quota(&self) -> Option<&Quota> {
        self.policy.limits().first().map(Limit::quota)
    }

    /// Returns how many permits all keys have in the time of the load, without their bursts.
    pub(super) fn permits(&self) -> u64 {
        let Some(quota) = self.quota() else { return 0 };
        let permits = u128::from(quota.permits() * self.keys) * u128::from(self.lasts);
        u64::try_from(permits / u128::from(micros(quota.window()))).unwrap_or(u64::MAX)
    }

    /// Returns how many checks arrive in a second at each process.
    pub(super) fn per_second(&self, percent: u64) -> u64 {
        let all = self.permits().min(3_000 * self.lasts / 1_000_000) * percent / 100;
        let all = all.max(5 * self.lasts / 1_000_000);
        (all * 1_000_000 / self.lasts / self.leases.len() as u64).max(1)
    }

    pub(super) const fn is_below_limit(&self) -> bool {
        matches!(self.arrivals, Arrivals::Even(0..=90) | Arrivals::Bursts(0..=90))
    }

    /// Returns how many permits nobody may have got when the load ends, because leases keep them back: by GCRA, what
    /// recovers in the length of a lease, once for each key; and what each process holds.
    pub(super) fn kept_back(&self) -> u64 {
        let Some(limit) = self.policy.limits().first() else { return 0 };
        let quota = limit.quota();
        let recovers_in = micros(quota.window()) * quota.burst() / quota.permits();
        let length = (recovers_in / 4).min(1_000_000);
        let recovers = match limit.algorithm() {
            Algorithm::Gcra => quota.permits() * length / micros(quota.window()),
            _ => 0,
        };
        self.keys * (recovers + HELD * self.leases.len() as u64)
    }

    /// Returns which process got less than half of an equal share, although each tried to get all.
    pub(super) fn starved(&self, admitted: &[u64]) -> Option<String> {
        let is_saturated = match self.arrivals {
            Arrivals::Even(percent) | Arrivals::Bursts(percent) => {
                percent >= 100 * self.leases.len() as u64
            }
            Arrivals::Tasks(_) => false,
        };
        let share = admitted.iter().sum::<u64>() / self.leases.len() as u64;
        let least = *admitted.iter().min()?;
        (is_saturated && share >= 100 && least * 2 < share)
            .then(|| format!("less than half of an equal share of {share}: {admitted:?}"))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, leases, keys, trips, arrivals, lasts } = self;
        for limit in policy.limits() {
            write!(f, "{} by {:?}, ", limit.quota(), limit.algorithm())?;
        }
        let leased = leases.iter().filter(|leases| **leases).count();
        let processes = leases.len();
        write!(
            f,
            "{keys} keys, {leased} of {processes} processes lease, {} us a message, ",
            trips.shortest
        )?;
        match arrivals {
            Arrivals::Even(percent) => write!(f, "{percent} % of the limit")?,
            Arrivals::Bursts(percent) => {
                write!(f, "{percent} % of the limit, in bursts of 200 ms")?;
            }
            Arrivals::Tasks(tasks) => write!(f, "{tasks} tasks a process")?,
        }
        write!(f, ", for {} s", lasts / 1_000_000)
    }
}
