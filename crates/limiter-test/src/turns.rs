//! Quotas of several lengths that take turns on one key: models of the rules, right and wrong, and a
//! random search for schedules that exceed the bound.
//!
//! A model counts time in whole units, and is asked like a limiter: by one of its quotas, for a cost, now
//! or within some time.

#![expect(clippy::indexing_slicing, reason = "a model that fails fails its test")]

mod log;
mod real;
mod table;
mod windows;

use std::collections::VecDeque;

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};

pub use log::{Log, LogRule};
pub use real::Real;
pub use table::{IN_TURN, table};
pub use windows::{Windows, WindowsRule};

/// So many permits within so many units of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The permits.
    pub limit: u64,
    /// The length of the window.
    pub length: u64,
}

/// The parts of a unit of time. A limiter's waits may be fractions of a unit.
pub const PARTS: u64 = 1_000_000_000;

/// A key on which quotas take turns.
pub trait Turns {
    /// Charges `cost` under `quota` at the first moment at which it fits, up to `within` from now, and
    /// returns the moment in [parts](PARTS) of a unit.
    fn take(&mut self, now: u64, quota: Quota, cost: u64, within: u64) -> Option<u64>;

    /// Gives back up to `permits` of the `charge`-th charge, and returns how many were returned.
    fn refund(&mut self, now: u64, charge: usize, permits: u64) -> u64;
}

/// What a schedule does besides checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// How many quotas take turns.
    pub quotas: usize,
    /// Whether permits are reserved for later.
    pub reserves: bool,
    /// Whether permits are refunded.
    pub refunds: bool,
}

/// Permits that were charged for a moment and kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// In parts of a unit.
    at: u64,
    permits: u64,
}

/// Runs a random schedule, and returns by how many permits the most that was admitted in a window of one
/// of the quotas exceeds the bound: the most that one quota admits there alone, which is `windows(n)` times
/// its limit where its windows fit `n` times, and the largest limit where several quotas take turns.
pub fn excess<T: Turns>(
    seed: u64,
    means: Means,
    windows: fn(u64) -> u64,
    make: impl FnOnce(&[Quota]) -> T,
) -> u64 {
    let mut random = Random::new(seed);
    let mut quotas: Vec<_> = (0..means.quotas).map(|_| random.quota()).collect();
    if random.below(3) == 0 {
        let limit = quotas[0].limit;
        quotas.iter_mut().for_each(|quota| quota.limit = limit);
    }
    let mut key = make(&quotas);
    let mut kept: Vec<Kept> = Vec::new();
    let mut now = 1_000;
    for _ in 0..150 {
        now += random.of(&[0, 0, 0, 1, 2, 5, 20, 60]);
        let quota = quotas[random.below(quotas.len())];
        if means.refunds && !kept.is_empty() && random.below(4) == 0 {
            let last = kept.len() - 1;
            let charge = last - random.below(kept.len().min(8));
            let Kept { at, permits } = kept[charge];
            // Before its moment a reservation is returned whole.
            let part = permits.min(1 + random.next() % permits.max(1));
            let permits = if now * PARTS < at { permits } else { part };
            kept[charge].permits -= key.refund(now, charge, permits);
        } else {
            let cost = random.of(&[1, 1, 2, 5, quota.limit, quota.limit]).min(quota.limit);
            let within = if means.reserves { random.of(&[0, 0, 30, 200]) } else { 0 };
            if let Some(at) = key.take(now, quota, cost, within) {
                kept.push(Kept { at, permits: cost });
            }
        }
    }
    kept.sort_by_key(|kept| kept.at);
    let beside = if quotas.len() > 1 { quotas.iter().map(|quota| quota.limit).max() } else { None };
    let lengths = quotas.iter().map(|quota| quota.length).chain([7]);
    let over = lengths.map(|length| {
        let alone = quotas.iter().map(|it| windows(length.div_ceil(it.length)) * it.limit);
        let bound = alone.max().unwrap_or(0) + beside.unwrap_or(0);
        most_within(&kept, length).saturating_sub(bound)
    });
    over.max().unwrap_or(0)
}

/// Returns the most permits in a half-open window of some length.
fn most_within(kept: &[Kept], length: u64) -> u64 {
    let (mut window, mut sum, mut most) = (VecDeque::new(), 0, 0);
    for Kept { at, permits } in kept {
        window.push_back((at, permits));
        sum += permits;
        while let Some((first, permits)) = window.front()
            && *first + length * PARTS <= *at
        {
            sum -= *permits;
            window.pop_front();
        }
        most = most.max(sum);
    }
    most
}

/// Returns which share of its requests each quota serves, in percent: `requests` in turn, all together at
/// four fifths of the lowest rate.
pub fn served(key: &mut impl Turns, quotas: &[Quota], requests: u64) -> Vec<u64> {
    let interval = |quota: &Quota| quota.length * PARTS / quota.limit * 5 / 4;
    let interval = quotas.iter().map(interval).max().unwrap_or(PARTS);
    let mut admitted = vec![0_u64; quotas.len()];
    for (request, (index, quota)) in (0..requests).zip(quotas.iter().enumerate().cycle()) {
        let now = 10_000 + request * interval / PARTS;
        admitted[index] += u64::from(key.take(now, *quota, 1, 0).is_some());
    }
    let asked = requests / quotas.len() as u64;
    admitted.into_iter().map(|admitted| 100 * admitted / asked).collect()
}

struct Random(TestRng);

impl Random {
    fn new(seed: u64) -> Self {
        let seed = u128::from(seed + 1) << 64 | 0x9E37_79B9;
        Self(TestRng::from_seed(RngAlgorithm::XorShift, &seed.to_le_bytes()))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u32().into()
    }

    fn below(&mut self, number: usize) -> usize {
        self.0.next_u32() as usize % number
    }

    fn of(&mut self, from: &[u64]) -> u64 {
        from[self.below(from.len())]
    }

    fn quota(&mut self) -> Quota {
        let lengths = [5, 20, 60, 61, 3 + self.next() % 300];
        Quota { limit: 1 + self.next() % 25, length: self.of(&lengths) }
    }
}
