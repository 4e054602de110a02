//! The wakers of tasks and threads that wait until a clock is moved.

use alloc::{collections::BTreeMap, vec::Vec};
use core::task::Waker;
use std::sync::PoisonError;

use crate::{
    Timestamp,
    sync::{Mutex, MutexGuard},
};

/// Wakers by the moment that they wait for.
#[derive(Debug, Default)]
pub(super) struct Sleepers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    wakers: BTreeMap<Id, Waker>,
    /// How many wakers were ever added.
    added: u64,
}

/// The moment that a waker waits for, and a unique number.
pub(super) type Id = (Timestamp, u64);

impl Sleepers {
    pub(super) fn add(&self, until: Timestamp, waker: Waker) -> Id {
        let mut inner = self.lock();
        inner.added += 1;
        let id = (until, inner.added);
        inner.wakers.insert(id, waker);
        id
    }

    pub(super) fn remove(&self, id: Id) {
        // Dropped after the lock is released, because a waker's drop may drop another sleep.
        let _waker = self.lock().wakers.remove(&id);
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.lock().wakers.first_key_value().map(|((until, _), _)| *until)
    }

    pub(super) fn wake(&self, now: Timestamp) {
        let mut due = Vec::new();
        let mut inner = self.lock();
        while let Some(first) = inner.wakers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        // A woken task may take the lock.
        drop(inner);
        due.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
