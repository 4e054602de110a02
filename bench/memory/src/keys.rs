//! The keys, and the order in which they are visited.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv4Addr},
};

use crate::subjects::Forms;

/// A kind of key, numbered.
pub(crate) trait Key: Clone + Eq + Hash + Send + Sync + Forms + 'static {
    const KIND: &'static str;

    fn of(number: usize) -> Self;
}

impl Key for String {
    const KIND: &'static str = "`&str`";

    /// 16 bytes.
    fn of(number: usize) -> Self {
        format!("account-{number:08}")
    }
}

impl Key for u64 {
    const KIND: &'static str = "`u64`";

    fn of(number: usize) -> Self {
        number as Self
    }
}

impl Key for IpAddr {
    const KIND: &'static str = "`IpAddr`";

    fn of(number: usize) -> Self {
        let number = u32::try_from(number).expect("a number of 32 bits");
        Self::V4(Ipv4Addr::from_bits(0x0A00_0000_u32.wrapping_add(number)))
    }
}

/// How often which key is visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// All alike, in random order.
    Uniform,
    /// The k-th most frequent key 1/k as often as the first, by Zipf's law.
    Zipf,
}

impl Pattern {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }
}

/// Enough visits that no cache holds the keys of all of them.
const MOST_VISITS: usize = 1 << 22;

/// Returns keys in the order of their visits, which are repeated in a cycle.
///
/// They are laid out in that order too, so that a check finds its key in the cache, as a server does
/// that has just read it from a request.
pub(crate) fn visits<K: Key>(keys: usize, pattern: Pattern) -> Vec<K> {
    let mut random = Random(1);
    let mut order: Vec<u32> = (0..u32::try_from(keys).expect("a number of 32 bits")).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last + 1));
    }
    match pattern {
        Pattern::Uniform => {
            order.truncate(MOST_VISITS);
            order.into_iter().map(|number| K::of(number as usize)).collect()
        }
        Pattern::Zipf => {
            let visits = (keys * 16).min(MOST_VISITS);
            let visit = |_| order[random.zipf(keys)] as usize;
            (0..visits).map(visit).map(K::of).collect()
        }
    }
}

/// A generator of numbers that are random enough for this, the same in each run: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a rank, counted from 0, by Zipf's law with exponent 1.
    ///
    /// The ranks up to k have a share of about ln(k + 1) / ln(n + 1), which is inverted.
    fn zipf(&mut self, ranks: usize) -> usize {
        let share = self.next() as f64 / u64::MAX as f64;
        let rank = ((ranks + 1) as f64).powf(share) - 1.0;
        (rank as usize).min(ranks - 1)
    }
}
