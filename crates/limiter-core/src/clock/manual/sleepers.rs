//! Those who wait until a clock is moved.

use alloc::{collections::BTreeMap, vec::Vec};
use core::task::Waker;
use std::sync::PoisonError;

use crate::{
    Timestamp,
    sync::{Mutex, MutexGuard},
};

/// Who waits until when.
#[derive(Debug, Default)]
pub(super) struct Sleepers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    wakers: BTreeMap<Place, Waker>,
    added: u64,
}

/// A moment, and a number that no one else has.
pub(super) type Place = (Timestamp, u64);

impl Sleepers {
    pub(super) fn add(&self, until: Timestamp, waker: Waker) -> Place {
        let mut inner = self.lock();
        inner.added += 1;
        let place = (until, inner.added);
        inner.wakers.insert(place, waker);
        place
    }

    pub(super) fn remove(&self, place: Place) {
        // Dropped after the lock: with its waker, someone else's sleep may go.
        let _waker = self.lock().wakers.remove(&place);
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
        // Whoever is woken may want the lock.
        drop(inner);
        due.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
