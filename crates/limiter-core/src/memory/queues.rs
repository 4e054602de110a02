//! The queues of all keys that have waiters.

use alloc::vec::Vec;
use core::task::Waker;
use std::collections::HashMap;

use super::{
    queue::{Queue, Target},
    states::States,
};
use crate::{
    Timestamp,
    sync::{AtomicUsize, Mutex, Ordering, fence, lock},
};

/// The queues of all keys that have waiters, by the hash of the key.
#[derive(Debug)]
pub(super) struct Queues {
    shards: [Shard; SHARDS],
}

/// In models, a single one, because the hash of a key is random.
const SHARDS: usize = if cfg!(loom) { 1 } else { 32 };

#[derive(Debug, Default)]
struct Shard {
    /// How many queues there are. Changed under the lock, and read without it: an operation that
    /// reads zero precedes the waiters to come.
    number: AtomicUsize,
    queues: Mutex<HashMap<u64, Queue>>,
}

impl Queues {
    pub(super) fn new() -> Self {
        Self { shards: core::array::from_fn(|_| Shard::default()) }
    }

    /// Returns whether there are no waiters for this key, and maybe for some others.
    #[inline]
    pub(super) fn are_empty_for(&self, hash: u64) -> bool {
        self.shard(hash).number.load(Ordering::Acquire) == 0
    }

    /// Runs `operate` on the queue of a key, which is made if there is none, after its waiters that
    /// are due were charged.
    pub(super) fn with<R>(
        &self,
        states: &States,
        hash: u64,
        clock: &dyn Fn() -> Timestamp,
        operate: impl FnOnce(&mut Queue, &mut Target<'_>) -> R,
    ) -> R {
        let shard = self.shard(hash);
        let (result, target) = {
            let mut queues = lock(&shard.queues);
            let queue = queues.entry(hash).or_insert_with(|| {
                shard.number.fetch_add(1, Ordering::SeqCst);
                // Before the state is read: a refund finds the queue, or was before.
                fence(Ordering::SeqCst);
                Queue::default()
            });
            let (wake, retired) = (Vec::new(), Vec::new());
            let mut target = Target { states, hash, now: clock(), wake, retired };
            queue.settle(&mut target);
            let result = operate(queue, &mut target);
            if queue.is_empty() {
                queues.remove(&hash);
                shard.number.fetch_sub(1, Ordering::SeqCst);
                if queues.is_empty() {
                    queues.shrink_to_fit();
                }
            }
            (result, target)
        };
        // After the lock is released, because a waker and a drop may take it again.
        target.wake.into_iter().for_each(Waker::wake);
        drop(target.retired);
        result
    }

    /// Returns whether there is a queue for this very key.
    pub(super) fn has(&self, hash: u64) -> bool {
        !self.are_empty_for(hash) && lock(&self.shard(hash).queues).contains_key(&hash)
    }

    fn shard(&self, hash: u64) -> &Shard {
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "the remainder is below the length"
        )]
        &self.shards[hash as usize % SHARDS]
    }
}
