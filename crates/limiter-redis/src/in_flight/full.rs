//! Keys that are full, as the server has said: requests for them are refused without a call.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::Timestamp;

/// Cached denials. Each lasts for a short time, because another process may give a permit back, and ends when this process
/// gives one back.
pub(crate) struct Full {
    denials: Mutex<HashMap<Bytes, Denial, SeedableRandomState>>,
    /// Count the permits of this process that came back, by the hashes of their keys.
    returns: [AtomicU64; 64],
    hasher: SeedableRandomState,
    capacity: usize,
}

#[derive(Clone, Copy)]
struct Denial {
    /// The limit that refused.
    limit: u32,
    held: u32,
    until: Timestamp,
}

/// How many permits had come back when a request began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Full {
    /// How long a denial is cached at most, from when its request was sent.
    pub(crate) const MAX_AGE: Duration = Duration::from_millis(100);

    /// Returns an empty cache of so many keys.
    pub(crate) fn new(capacity: usize, hasher: SeedableRandomState) -> Self {
        let denials = Mutex::new(HashMap::with_hasher(hasher.clone()));
        Self { denials, returns: std::array::from_fn(|_| AtomicU64::new(0)), hasher, capacity }
    }

    /// Returns how many permits were held, if a request under `limit` is refused.
    pub(crate) fn find(&self, key: &[u8], limit: u32, now: Timestamp) -> Option<u32> {
        let denial = self.lock().get(key).copied()?;
        (limit <= denial.limit && now < denial.until).then_some(denial.held)
    }

    /// Returns the ticket of a request that begins now.
    pub(crate) fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.returns(key).load(SeqCst))
    }

    /// Caches that a request was refused, unless a permit of its key has come back since it began.
    pub(crate) fn insert(
        &self,
        ticket: Ticket,
        key: &Bytes,
        (limit, held): (u32, u32),
        (sent, now): (Timestamp, Timestamp),
    ) {
        let until = sent.saturating_add(Self::MAX_AGE);
        let mut denials = self.lock();
        if denials.len() >= self.capacity && !denials.contains_key(key) {
            denials.retain(|_, denial| now < denial.until);
        }
        if self.returns(key).load(SeqCst) == ticket.0 && denials.len() < self.capacity {
            denials.insert(key.clone(), Denial { limit, held, until });
        }
    }

    /// Notes that a permit of the key comes back, or has.
    pub(crate) fn comes_back(&self, key: &[u8]) {
        let mut denials = self.lock();
        self.returns(key).fetch_add(1, SeqCst);
        denials.remove(key);
    }

    fn returns(&self, key: &[u8]) -> &AtomicU64 {
        let place = usize::try_from(self.hasher.hash_one(key) % 64).unwrap_or(0);
        self.returns.get(place).unwrap_or(&self.returns[0])
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Denial, SeedableRandomState>> {
        // No operation under the lock can leave it half done.
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
