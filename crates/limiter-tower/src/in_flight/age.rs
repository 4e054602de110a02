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

/// A permit, and when it was taken.
type Taken = (Timestamp, Weak<dyn Aged>);

/// The permits of a rule that are held.
pub(super) struct Ages {
    clock: Arc<dyn Clock>,
    max: Duration,
    digests: Digests,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    permits: BTreeMap<Place, Taken>,
    /// The keys' digests, by the numbers: the oldest permit is first.
    order: BTreeMap<u64, u128>,
    /// The number of the next permit. None is used twice, so that a permit that ends late removes no other.
    next: u64,
}

impl Ages {
    pub(super) fn new(clock: Arc<dyn Clock>, max: Duration) -> Self {
        Self { clock, max, digests: Digests::default(), held: Mutex::default() }
    }

    pub(super) fn add(&self, key: &Key<'_>, permit: Weak<dyn Aged>) -> Place {
        let digest = self.digests.of(key);
        let mut held = self.lock();
        let place = (digest, held.next);
        held.next += 1;
        held.permits.insert(place, (self.clock.now(), permit));
        held.order.insert(place.1, digest);
        place
    }

    pub(super) fn remove(&self, place: &Place) {
        self.lock().remove(place);
    }

    /// Returns the permits of `key` that are too old, and forgets them.
    pub(super) fn take_old(&self, key: &Key<'_>) -> Vec<Arc<dyn Aged>> {
        let (digest, now) = (self.digests.of(key), self.clock.now());
        let mut held = self.lock();
        let of_key = held.permits.range((digest, 0)..=(digest, u64::MAX));
        let old = of_key.take_while(|(_, taken)| self.is_old(taken, now));
        let old: Vec<Place> = old.map(|(place, _)| *place).collect();
        // Dropped by the caller, without the lock: the last reference locks it.
        old.iter().filter_map(|place| held.remove(place)?.upgrade()).collect()
    }

    /// Returns the oldest permit of all keys if it is too old, and forgets it.
    pub(super) fn take_oldest(&self) -> Option<Arc<dyn Aged>> {
        let now = self.clock.now();
        let mut held = self.lock();
        let place = held.order.first_key_value().map(|(number, digest)| (*digest, *number))?;
        let is_old = held.permits.get(&place).is_some_and(|taken| self.is_old(taken, now));
        if is_old { held.remove(&place)?.upgrade() } else { None }
    }

    fn is_old(&self, (since, _): &Taken, now: Timestamp) -> bool {
        now.saturating_since(*since) >= self.max
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn remove(&mut self, place: &Place) -> Option<Weak<dyn Aged>> {
        self.order.remove(&place.1);
        self.permits.remove(place).map(|(_, permit)| permit)
    }
}
