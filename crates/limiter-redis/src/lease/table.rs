//! The keys that this process leases: a bounded number, found without a lock.

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;
use foldhash::quality::SeedableRandomState;
use limiter_core::Timestamp;

use super::leased_key::LeasedKey;
use crate::scripts::Plan;

/// Each key has a place in one line. In a full line, a new key replaces one without a lease. If all have one, the
/// new key is checked at the store, so a flood of keys displaces no lease.
pub(super) struct Table {
    lines: Box<[Line]>,
    /// The line that is swept next.
    next: AtomicUsize,
    seed: SeedableRandomState,
}

type Line = [Place; PLACES];

#[derive(Default)]
struct Place {
    /// That of the key, so that a check loads no other keys: with eight in a line, 100 ns instead of 136. After a race it
    /// may be that of a key before, until the key is added once more.
    hash: AtomicU64,
    key: ArcSwapOption<LeasedKey>,
}

const PLACES: usize = 8;

impl Table {
    /// Returns a table of at least so many places.
    pub(super) fn new(keys: usize, seed: SeedableRandomState) -> Self {
        let lines = 0..keys.div_ceil(PLACES).max(1);
        Self {
            lines: lines.map(|_| Default::default()).collect(),
            next: AtomicUsize::default(),
            seed,
        }
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    /// Returns a number between 0 and 1 that looks random.
    pub(super) fn fraction(&self, of: impl std::hash::Hash) -> f64 {
        // 32 bits are exact.
        f64::from((self.seed.hash_one(of) >> 32) as u32) / f64::from(u32::MAX)
    }

    /// Calls `found` with what is leased of a key.
    pub(super) fn with<T>(
        &self,
        (hash, key, plan): (u64, &[u8], &Arc<Plan>),
        found: impl FnOnce(&Arc<LeasedKey>) -> T,
    ) -> Option<T> {
        let alike = self.line(hash).iter().filter(|place| place.hash.load(Relaxed) == hash);
        let mut known = alike.map(|place| place.key.load());
        let known = known.find(|it| it.as_ref().is_some_and(|it| it.is_of(hash, key, plan)))?;
        known.as_ref().map(found)
    }

    /// Adds a key, unless its line is full. Returns what is in its place, and what it replaced.
    pub(super) fn add(
        &self,
        new: Arc<LeasedKey>,
        now: Timestamp,
    ) -> Option<(Arc<LeasedKey>, Option<Arc<LeasedKey>>)> {
        for place in self.line(new.hash) {
            let old = place.key.load();
            if let Some(known) = old.as_ref() {
                if known.is_of(new.hash, &new.key, &new.plan) {
                    place.hash.store(new.hash, Relaxed);
                    return Some((Arc::clone(known), None));
                }
                if !known.is_idle(now) {
                    continue;
                }
            }
            let seen = place.key.compare_and_swap(&*old, Some(Arc::clone(&new)));
            if seen.as_ref().map(Arc::as_ptr) == old.as_ref().map(Arc::as_ptr) {
                place.hash.store(new.hash, Relaxed);
                return Some((new, seen.as_ref().map(Arc::clone)));
            }
        }
        None
    }

    /// Removes a key under every policy.
    pub(super) fn remove(&self, key: &[u8]) -> Vec<Arc<LeasedKey>> {
        let hash = self.hash(key);
        let is_it = |known: &Arc<LeasedKey>| known.hash == hash && *known.key == *key;
        let places = self.line(hash).iter();
        let places = places.filter(|place| place.key.load().as_ref().is_some_and(is_it));
        places.filter_map(|place| place.key.swap(None)).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Arc<LeasedKey>> {
        self.lines.iter().flatten().filter_map(|place| place.key.load_full())
    }

    /// Returns the keys of one line after the other.
    pub(super) fn next_line(&self) -> impl Iterator<Item = Arc<LeasedKey>> {
        let index = self.next.fetch_add(1, Relaxed) % self.lines.len();
        self.lines.get(index).into_iter().flatten().filter_map(|place| place.key.load_full())
    }

    fn line(&self, hash: u64) -> &[Place] {
        // The high bits choose the line: a multiplication maps them onto any number of lines.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        let line = usize::try_from(index).ok().and_then(|index| self.lines.get(index));
        line.map_or(&[], |line| line.as_slice())
    }
}
