//! Charges whose permits are counted only when the state has been read.

use crate::{Cost, Decision, Timestamp, algorithms::Transition, charge::Charge};

/// How many of the permits that a request names are charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taking {
    /// As many as fit now.
    UpTo,
    /// All, whether or not they fit, up to the reach of the state.
    InAnyCase,
}

impl Taking {
    /// Charges permits of a state that has been advanced to `now`.
    pub(crate) fn apply<T: Transition>(
        self,
        transition: &T,
        state: &mut T::State,
        now: Timestamp,
        permits: Cost,
    ) -> (Decision, Option<Charge>) {
        match self {
            Self::UpTo => transition.decide_up_to(state, now, permits),
            Self::InAnyCase => transition.force_charge(state, now, permits),
        }
    }
}
