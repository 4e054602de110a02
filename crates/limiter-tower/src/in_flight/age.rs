//! Permits that stop counting at an age.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use limiter_core::{Clock, Key, Timestamp};

/// A permit that can be given back before its work has ended.
pub(super) trait Aged: Send + Sync {
    fn end_hold(&self);
}

/// The key's encoding, and a number: those of a key are in the order in which they were taken.
pub(super) type Place = (Box<[u8]>, u64);

/// When each permit was taken.
type Held = BTreeMap<Place, (Timestamp, Weak<dyn Aged>)>;

/// The permits of a rule that are held.
pub(super) struct Ages {
    clock: Arc<dyn Clock>,
    max: Duration,
    held: Mutex<Held>,
}

impl Ages {
    pub(super) fn new(clock: Arc<dyn Clock>, max: Duration) -> Self {
        Self { clock, max, held: Mutex::default() }
    }

    pub(super) fn add(&self, key: &Key<'_>, permit: Weak<dyn Aged>) -> Place {
        let name = encode(key);
        let mut held = self.lock();
        let of_key = held.range((name.clone(), 0)..=(name.clone(), u64::MAX));
        let place = (name, of_key.last().map_or(0, |((_, number), _)| number + 1));
        held.insert(place.clone(), (self.clock.now(), permit));
        place
    }

    pub(super) fn remove(&self, place: &Place) {
        self.lock().remove(place);
    }

    /// Returns the permits of `key` that are too old, and forgets them.
    pub(super) fn take_old(&self, key: &Key<'_>) -> Vec<Arc<dyn Aged>> {
        let (name, now) = (encode(key), self.clock.now());
        let mut held = self.lock();
        let of_key = held.range((name.clone(), 0)..=(name, u64::MAX));
        let is_old = |since: Timestamp| now.saturating_since(since) >= self.max;
        let old = of_key.take_while(|(_, (since, _))| is_old(*since));
        let old: Vec<Place> = old.map(|(place, _)| place.clone()).collect();
        // Dropped by the caller, without the lock: the last reference locks it.
        old.iter().filter_map(|place| held.remove(place)?.1.upgrade()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode(key: &Key<'_>) -> Box<[u8]> {
    let mut name = Vec::new();
    key.encode(&mut name);
    name.into()
}
