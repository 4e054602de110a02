//! The limiter for one process.

use core::hash::BuildHasher;
use std::{format, hash::RandomState};

use crate::{
    Check, Clock, Cost, Decision, Error, ErrorKind, Key, Limiter, Policy, SystemClock, Timestamp,
    algorithm::Gcra, table::Table,
};

/// A limiter that keeps its state in this process's memory.
///
/// It never holds more keys than its capacity has room for, needs no background thread, and is
/// correct under threads: a key's permits are never given out twice. Share it by reference or in
/// an [`Arc`](std::sync::Arc).
///
/// Keys are held as 64-bit hashes under a seed drawn at random for each limiter.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};
///
/// let clock = ManualClock::new();
/// let policy = Policy::gcra("api", Quota::per_second(1)?)?;
/// let limiter = MemoryLimiter::new(policy)?.with_clock(clock.clone());
///
/// assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// assert!(!limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryLimiter<C = SystemClock> {
    policy: Policy,
    algorithm: Gcra,
    table: Table<Gcra>,
    seed: RandomState,
    clock: C,
    /// When the limiter was made: states count from here, so that any clock leaves them room.
    start: Timestamp,
}

impl MemoryLimiter {
    /// About how many keys in debt a limiter holds apart unless [`MemoryLimiter::with_capacity`]
    /// says otherwise: 100,000, in about 4 MB.
    pub const DEFAULT_CAPACITY: usize = 100_000;

    /// The largest capacity: 268,435,456 keys, in about 9 GB.
    pub const MAX_CAPACITY: usize = 1 << 28;

    /// Returns a limiter that applies `policy` by the machine's clock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota's rate is too high
    /// to be told in nanoseconds: see [`Meter::new`](crate::algorithm::Meter::new).
    pub fn new(policy: Policy) -> Result<Self, Error> {
        let algorithm = Gcra::new(policy.quota())?;
        let clock = SystemClock::new();
        Ok(Self {
            policy,
            algorithm,
            table: Table::new(algorithm, Self::DEFAULT_CAPACITY),
            seed: RandomState::new(),
            start: clock.now(),
            clock,
        })
    }
}

impl<C: Clock> MemoryLimiter<C> {
    /// Makes room for about `keys` keys in debt at once.
    ///
    /// Memory never grows past that. A new key that finds no room has to share the permits of one
    /// key with other such keys until an earlier key has recovered; keys that have a place keep it.
    /// Since a key's place depends on its hash, about one key in a thousand has to share before
    /// the limiter is full.
    ///
    /// Whatever was counted before is forgotten.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless `keys` is 1 to [`MemoryLimiter::MAX_CAPACITY`].
    pub fn with_capacity(self, keys: usize) -> Result<Self, Error> {
        if !(1..=MemoryLimiter::MAX_CAPACITY).contains(&keys) {
            let most = MemoryLimiter::MAX_CAPACITY;
            let message = format!("a capacity of {keys} keys: use 1 to {most}");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        Ok(Self { table: Table::new(self.algorithm, keys), ..self })
    }

    /// Reads the time from `clock`. Meant for a limiter that was not used yet.
    #[must_use]
    pub fn with_clock<D: Clock>(self, clock: D) -> MemoryLimiter<D> {
        let Self { policy, algorithm, table, seed, .. } = self;
        MemoryLimiter { policy, algorithm, table, seed, start: clock.now(), clock }
    }

    /// Takes `cost` permits of `key` if they are there now. Never waits, never fails.
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Decision {
        self.decide(&key.into(), cost)
    }

    fn decide(&self, key: &Key<'_>, cost: Cost) -> Decision {
        let since_start = self.clock.now().saturating_since(self.start);
        let now = Timestamp::ZERO.saturating_add(since_start);
        self.table.decide(self.seed.hash_one(key), now, cost)
    }
}

impl<C: Clock> Limiter for MemoryLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
        Check::ready(Ok(self.decide(key, cost)))
    }
}
