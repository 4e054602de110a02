//! Permits that stop counting at an age.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use limiter_core::{Clock, Key, Timestamp};

use crate::key::Digests;

/// A permit that can be given back before its work has ended.
pub(super) trait Aged: Send + Sync {
    fn end_hold(&self);
}

/// The key's digest, and a number: those of a key are in the order in which they were taken.
pub(super) type Place = (u128, u64);

/// When each permit was taken.
type Held = BTreeMap<Place, (Timestamp, Weak<dyn Aged>)>;

/// The permits of a rule that are held.
pub(super) struct Ages {
    clock: Arc<dyn Clock>,
    max: Duration,
    digests: Digests,
    held: Mutex<Held>,
}

impl Ages {
    pub(super) fn new(clock: Arc<dyn Clock>, max: Duration) -> Self {
        Self { clock, max, digests: Digests::default(), held: Mutex::default() }
    }

    pub(super) fn add(&self, key: &Key<'_>, permit: Weak<dyn Aged>) -> Place {
        let digest = self.digests.of(key);
        let mut held = self.lock();
        let of_key = held.range((digest, 0)..=(digest, u64::MAX));
        let place = (digest, of_key.last().map_or(0, |((_, number), _)| number + 1));
        held.insert(place, (self.clock.now(), permit));
        place
    }

    pub(super) fn remove(&self, place: &Place) {
        self.lock().remove(place);
    }

    /// Returns the permits of `key` that are too old, and forgets them.
    pub(super) fn take_old(&self, key: &Key<'_>) -> Vec<Arc<dyn Aged>> {
        let (digest, now) = (self.digests.of(key), self.clock.now());
        let mut held = self.lock();
        let of_key = held.range((digest, 0)..=(digest, u64::MAX));
        let is_old = |since: Timestamp| now.saturating_since(since) >= self.max;
        let old = of_key.take_while(|(_, (since, _))| is_old(*since));
        let old: Vec<Place> = old.map(|(place, _)| *place).collect();
        // Dropped by the caller, without the lock: the last reference locks it.
        old.iter().filter_map(|place| held.remove(place)?.1.upgrade()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
