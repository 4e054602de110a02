//! What all shards of a limiter share: the limit, and the bounds of memory.

use crate::sync::{AtomicU32, AtomicU64, Bounded, Ordering};

/// The limiter's own limit, and how many places and waiters there are, of how many.
pub(crate) struct Counts {
    limit: AtomicU32,
    /// The places for keys that the shards have.
    pub(crate) keys: Bounded,
    /// How many places without a key a shard keeps.
    pub(crate) spare_places: usize,
    pub(crate) waiting: Bounded,
    times_full: AtomicU64,
}

impl Counts {
    pub(crate) fn new(
        limit: u32,
        capacity: usize,
        max_waiting: usize,
        spare_places: usize,
    ) -> Self {
        Self {
            limit: AtomicU32::new(limit),
            keys: Bounded::new(capacity),
            spare_places,
            waiting: Bounded::new(max_waiting),
            times_full: AtomicU64::new(0),
        }
    }

    /// Returns the limiter's own limit.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limiter's own limit, of which each shard has a copy to be updated.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn count_full(&self) {
        self.times_full.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times_full(&self) -> u64 {
        self.times_full.load(Ordering::Relaxed)
    }
}
