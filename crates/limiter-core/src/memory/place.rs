//! Where a key's state under a limit is, and its present.

use core::time::Duration;

use smallvec::SmallVec;

use super::tables::{OnFull, Store, Tables};
use crate::{
    LimiterId, Timestamp,
    algorithms::{AnyTransition, Full, LimitState, State},
};

/// Where a key's state under a limit is.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) transition: &'a AnyTransition,
    /// Of the key, combined with the limit's salt.
    pub(crate) hash: u64,
    /// Whether the state is never charged. Then a key for which the table is full is a fresh one.
    pub(crate) only_asks: bool,
}

impl<'a> Place<'a> {
    /// Returns the table of the state.
    #[inline]
    pub(crate) fn store(&self) -> Option<Store<'a>> {
        self.tables.store(self.transition)
    }

    /// Returns whether both are of one state.
    pub(crate) fn has_state_of(&self, other: &Self) -> bool {
        (self.tables.id, self.hash) == (other.tables.id, other.hash)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.tables.now(&*self.tables.clock)
    }

    /// Returns what it means that a key has no state until there is room for it.
    pub(super) fn full(&self, wait: Duration) -> Full {
        Full { wait, admits: self.tables.room.on_full == OnFull::Admit }
    }

    /// Returns the state at an index under the limit, at its present.
    #[inline]
    pub(super) fn limit(&self, index: usize, now: Timestamp, full: Option<Full>) -> LimitState<'_> {
        let full = full.filter(|_| !self.only_asks);
        LimitState { transition: self.transition, index, now, full, charge: None }
    }

    /// Advances a state to a moment.
    pub(super) fn advance(&self, state: &mut State, at: Timestamp) {
        if self.transition.advance(state, at) {
            self.tables.begin_epoch();
        }
    }
}

/// The times of a list: each of the two that a clock shows is read once.
#[derive(Default)]
pub(crate) struct Times(SmallVec<[(LimiterId, bool, Timestamp); 2]>);

impl Times {
    /// Returns the present of a place. Limiters of one store share a clock.
    pub(crate) fn of(&mut self, place: &Place<'_>) -> Timestamp {
        let Self(times) = self;
        let (id, is_unix) = (place.tables.id, place.tables.reads_unix_time());
        let is_same = |(other, other_is_unix, _): &&(LimiterId, bool, Timestamp)| {
            other.shares_store_with(id) && *other_is_unix == is_unix
        };
        if let Some((.., now)) = times.iter().find(is_same) {
            return *now;
        }
        let now = place.now();
        times.push((id, is_unix, now));
        now
    }
}
