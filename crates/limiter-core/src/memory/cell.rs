//! One state without a key.

use alloc::sync::Arc;
use std::{fmt, sync::PoisonError};

use super::store::{Moment, Own, Past, Promised, Store, Tiers};
use crate::{Timestamp, algorithm::Algorithm, sync::Mutex};

/// One state under a lock.
pub(super) struct Cell<A: Algorithm>(Mutex<Inner<A>>);

struct Inner<A: Algorithm> {
    state: A::State,
    tiers: Arc<Tiers<A>>,
    past: Past,
}

impl<A: Algorithm> Cell<A> {
    pub(super) fn new(tiers: Arc<Tiers<A>>) -> Self {
        Self(Mutex::new(Inner { state: A::State::default(), tiers, past: Past::default() }))
    }
}

impl<A: Algorithm> Store<A> for Cell<A> {
    #[inline]
    fn with<R>(
        &self,
        hash: u64,
        moment: Moment<'_>,
        _promised: &Promised,
        transition: impl FnOnce(&Arc<Tiers<A>>, &mut A::State, Timestamp, Own<'_>) -> R,
    ) -> R {
        // A transition is complete or has not begun, so what a panic poisoned is whole.
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { state, tiers, past } = &mut *cell;
        let now = past.pass(moment);
        transition(tiers, state, now, past.of(hash))
    }

    fn reset(&self, hash: u64, _moment: Moment<'_>) {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cell.past.of(hash).reset();
        cell.state = A::State::default();
    }

    fn replace(&self, new: Arc<Tiers<A>>, moment: Moment<'_>, promised: &Promised) {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { state, tiers, past } = &mut *cell;
        if **tiers != *new {
            new.take_over(state, tiers, past.pass(moment), promised);
            past.rewritten();
            *tiers = new;
        }
    }
}

impl<A: Algorithm> fmt::Debug for Cell<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").finish_non_exhaustive()
    }
}
