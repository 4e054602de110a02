//! The queues of all keys that have waiters.

mod forecast;
mod queue;

use std::collections::HashMap;

pub(crate) use self::{
    forecast::Ticket,
    queue::{Queue, Status},
};
use super::{key_hasher::part_of, tables::Tables};
use crate::sync::{AtomicUsize, Mutex, Ordering, fence, lock, wake_all};

/// The queues of all keys that have waiters, by the hash of the key.
pub(crate) struct Queues {
    /// How many queues there are, by a part of the hashes each. Changed under the lock, and read
    /// without it: an operation that reads zero precedes the waiters to come.
    counts: Box<[AtomicUsize]>,
    shards: Box<[Mutex<HashMap<u64, Queue>>]>,
}

/// Far more than shards, because all keys that share a count with a waiter take the slow path: `docs/decisions/waiters.md`
/// has the time of their checks.
const COUNTS: usize = 1_024;
const SHARDS: usize = 32;

impl Queues {
    /// Returns room for the queues of a limiter of so many keys.
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            counts: (0..keys.min(COUNTS)).map(|_| AtomicUsize::new(0)).collect(),
            shards: (0..keys.min(SHARDS)).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns whether there are no waiters for this key, and maybe for some others.
    #[inline]
    pub(crate) fn are_empty_for(&self, hash: u64) -> bool {
        part_of(&self.counts, hash).load(Ordering::Acquire) == 0
    }

    /// Returns whether there is a queue for this very key.
    pub(crate) fn has(&self, hash: u64) -> bool {
        let has = || lock(part_of(&self.shards, hash)).contains_key(&hash);
        !self.are_empty_for(hash) && has()
    }

    /// Charges the waiters of a key that are due, and then runs `operate` on the key's queue. A key without a queue gets
    /// one.
    pub(crate) fn with<R>(
        &self,
        hash: u64,
        tables: &Tables,
        operate: impl FnOnce(&mut Queue) -> R,
    ) -> R {
        let count = part_of(&self.counts, hash);
        let mut queues = lock(part_of(&self.shards, hash));
        let queue = queues.entry(hash).or_insert_with(|| {
            count.fetch_add(1, Ordering::SeqCst);
            // Before the state is read: a refund finds the queue, or was before.
            fence(Ordering::SeqCst);
            Queue::new(hash)
        });
        queue.settle(tables.present(), tables);
        let result = operate(queue);
        let (wake, retired) = queue.take_wakers();
        if queue.is_empty() {
            queues.remove(&hash);
            count.fetch_sub(1, Ordering::SeqCst);
            if queues.is_empty() {
                queues.shrink_to_fit();
            }
        }
        // A waker, and a drop, may take the lock again.
        drop(queues);
        wake_all(wake);
        drop(retired);
        result
    }
}
