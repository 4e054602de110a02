//! Keys that are full, as the server has said: requests for them are refused without a call.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::Timestamp;

/// Cached denials. Each lasts for a short time, because another process may give a permit back, and ends when this process
/// gives one back.
pub(crate) struct Full {
    inner: Mutex<Inner>,
    capacity: usize,
}

struct Inner {
    denials: HashMap<Bytes, Denial, SeedableRandomState>,
    /// Count the permits of this process that came back, by the hashes of their keys.
    returns: [u64; 64],
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
        let inner = Inner { denials: HashMap::with_hasher(hasher), returns: [0; 64] };
        Self { inner: Mutex::new(inner), capacity }
    }

    /// Returns the ticket of a request that begins now, or how many permits were held if it is refused under `limit`.
    pub(crate) fn begin(&self, key: &[u8], limit: u32, now: Timestamp) -> Result<Ticket, u32> {
        let mut inner = self.lock();
        match inner.denials.get(key) {
            Some(denial) if limit <= denial.limit && now < denial.until => Err(denial.held),
            _ => Ok(Ticket(*inner.returns(key))),
        }
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
        let mut inner = self.lock();
        if inner.denials.len() >= self.capacity && !inner.denials.contains_key(key) {
            inner.denials.retain(|_, denial| now < denial.until);
        }
        if *inner.returns(key) == ticket.0 && inner.denials.len() < self.capacity {
            inner.denials.insert(key.clone(), Denial { limit, held, until });
        }
    }

    /// Notes that a permit of the key comes back, or has.
    pub(crate) fn comes_back(&self, key: &[u8]) {
        let mut inner = self.lock();
        *inner.returns(key) += 1;
        inner.denials.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn returns(&mut self, key: &[u8]) -> &mut u64 {
        let hash = self.denials.hasher().hash_one(key);
        let [first, others @ ..] = &mut self.returns;
        others.get_mut(usize::try_from(hash % 64).unwrap_or(0)).unwrap_or(first)
    }
}
