//! One state without a key.

use alloc::sync::Arc;
use std::{fmt, sync::PoisonError};

use super::store::{Promised, Store, Tiers};
use crate::{Timestamp, algorithm::Algorithm, sync::Mutex};

/// One state under a lock.
pub(super) struct Cell<A: Algorithm>(Mutex<(A::State, Arc<Tiers<A>>)>);

impl<A: Algorithm> Cell<A> {
    pub(super) fn new(tiers: Arc<Tiers<A>>) -> Self {
        Self(Mutex::new((A::State::default(), tiers)))
    }
}

impl<A: Algorithm> Store<A> for Cell<A> {
    #[inline]
    fn with<R>(
        &self,
        _hash: u64,
        _now: Timestamp,
        _promised: &Promised,
        transition: impl FnOnce(&Arc<Tiers<A>>, &mut A::State) -> R,
    ) -> R {
        // A transition is complete or has not begun, so what a panic poisoned is whole.
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, tiers) = &mut *cell;
        transition(tiers, state)
    }

    fn reset(&self, _hash: u64, _now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = A::State::default();
    }

    fn replace(&self, new: Arc<Tiers<A>>) {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, tiers) = &mut *cell;
        new.of(0).adopt(state, tiers.of(0));
        *tiers = new;
    }
}

impl<A: Algorithm> fmt::Debug for Cell<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").finish_non_exhaustive()
    }
}
