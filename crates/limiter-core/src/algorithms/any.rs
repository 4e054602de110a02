//! The transition of a policy, chosen at run time.

use alloc::boxed::Box;
use core::time::Duration;

use super::{
    entries::Entries,
    gcra::{Gcra, Tat},
    ledger::Ledger,
    transition::{Refunded, Transition},
    window::Counts,
    windows::{WindowKind, Windows},
};
use crate::{Algorithm, Cost, Quota, Timestamp, Usage, charge::Charge};

/// The transition of a limit: see [`Policy::transitions`](crate::Policy::transitions).
///
/// Its variants are no part of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnyTransition {
    /// A debt that drains.
    #[doc(hidden)]
    Gcra(Gcra),
    /// A counter of whole windows.
    #[doc(hidden)]
    Windows(Windows),
    /// Dated entries.
    #[doc(hidden)]
    Ledger(Ledger),
}

/// The state of a key under a limit. The default is that of a new key.
///
/// Its variants are no part of the interface.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The fresh state of any algorithm.
    #[doc(hidden)]
    #[default]
    Fresh,
    /// That of [`Gcra`].
    #[doc(hidden)]
    Gcra(Tat),
    /// That of [`Windows`].
    #[doc(hidden)]
    Windows(Counts),
    /// That of [`Ledger`].
    #[doc(hidden)]
    Ledger(Box<Entries>),
}

impl AnyTransition {
    /// Returns the transition of an algorithm under a quota, whose permits may be promised as far ahead as
    /// `horizon`.
    pub(crate) fn new(algorithm: Algorithm, quota: &Quota, horizon: Duration) -> Self {
        let windows = |kind| Self::Windows(Windows::new(kind, quota, horizon));
        match algorithm {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => Self::Gcra(Gcra::new(quota, horizon)),
            Algorithm::FixedWindow => windows(WindowKind::Fixed),
            Algorithm::AlignedWindow => windows(WindowKind::Aligned),
            Algorithm::SlidingCounter => windows(WindowKind::Sliding),
            Algorithm::SubWindows(slots) => {
                Self::Ledger(Ledger::sub_windows(quota, horizon, slots))
            }
            Algorithm::SlidingLog => Self::Ledger(Ledger::sliding_log(quota, horizon)),
        }
    }

    /// Returns whether a state can be large: that of an exact log.
    pub(crate) fn has_log(&self) -> bool {
        match self {
            Self::Ledger(ledger) => ledger.is_log(),
            Self::Gcra(_) | Self::Windows(_) => false,
        }
    }

    /// Returns a copy of the state that gives the same waits for the next `permits` that are charged or asked for,
    /// all by this transition. With `u64::MAX`, by any transition.
    pub(crate) fn copy_for(&self, state: &State, permits: u64) -> State {
        match (self, state) {
            (Self::Ledger(ledger), State::Ledger(entries)) => {
                State::Ledger(ledger.copy_for(entries, permits).into())
            }
            _ => state.clone(),
        }
    }
}

impl State {
    /// Returns for how many entries it has memory beyond its fixed size, and beyond the first `own` of each log.
    pub(crate) fn entries(&self, own: usize) -> usize {
        match self {
            Self::Ledger(entries) => entries.allocated().saturating_sub(own),
            _ => 0,
        }
    }

    /// Returns for how many of such entries more it would allocate memory at the next charge.
    pub(crate) fn growth(&self, own: usize) -> usize {
        match self {
            Self::Ledger(entries) => {
                let grown = entries.allocated().saturating_add(entries.growth());
                grown.saturating_sub(own.max(entries.allocated()))
            }
            _ => 0,
        }
    }

    /// Lets its log have so many of such entries more than it has memory for.
    pub(crate) fn set_spare(&mut self, spare: usize, own: usize) {
        if let Self::Ledger(entries) = self {
            entries.set_room(entries.allocated().max(own), spare);
        }
    }
}

/// Calls a transition with its own state. A state of another algorithm, which no store hands out,
/// counts as fresh.
macro_rules! dispatch {
    ($access:ident $transition:expr, $state:expr, |$own:ident, $value:ident| $call:expr) => {
        match $transition {
            AnyTransition::Gcra($own) => dispatch!(@$access Gcra, $state, $value, $call),
            AnyTransition::Windows($own) => dispatch!(@$access Windows, $state, $value, $call),
            AnyTransition::Ledger($own) => dispatch!(@$access Ledger, $state, $value, $call),
        }
    };
    (@write $variant:ident, $state:expr, $value:ident, $call:expr) => {
        if let State::$variant($value) = $state {
            $call
        } else {
            let mut fresh = Default::default();
            let $value = &mut fresh;
            let result = $call;
            *$state = State::$variant(fresh.into());
            result
        }
    };
    (@read $variant:ident, $state:expr, $value:ident, $call:expr) => {
        if let State::$variant($value) = $state {
            $call
        } else {
            let $value = &Default::default();
            $call
        }
    };
}

impl Transition for AnyTransition {
    type State = State;

    fn is_possible(&self, state: &State, now: Timestamp) -> bool {
        dispatch!(read self, state, |own, value| own.is_possible(value, now))
    }

    fn advance(&self, state: &mut State, now: Timestamp) -> bool {
        dispatch!(write self, state, |own, value| own.advance(value, now))
    }

    fn wait(&self, state: &State, now: Timestamp, cost: Cost) -> Option<Duration> {
        dispatch!(read self, state, |own, value| own.wait(value, now, cost))
    }

    fn charge(&self, state: &mut State, now: Timestamp, at: Timestamp, cost: Cost) -> u64 {
        dispatch!(write self, state, |own, value| own.charge(value, now, at, cost))
    }

    fn most_chargeable(&self, state: &State, now: Timestamp) -> u64 {
        dispatch!(read self, state, |own, value| own.most_chargeable(value, now))
    }

    fn refundable(&self, state: &State, now: Timestamp, charge: &Charge, permits: u64) -> Refunded {
        dispatch!(read self, state, |own, value| own.refundable(value, now, charge, permits))
    }

    fn give_back(&self, state: &mut State, now: Timestamp, charge: &Charge, permits: u64) {
        dispatch!(write self, state, |own, value| own.give_back(value, now, charge, permits));
    }

    #[inline]
    fn usage(&self, state: &State, now: Timestamp) -> Usage {
        dispatch!(read self, state, |own, value| own.usage(value, now))
    }

    fn horizon(&self) -> Duration {
        match self {
            Self::Gcra(own) => own.horizon(),
            Self::Windows(own) => own.horizon(),
            Self::Ledger(own) => own.horizon(),
        }
    }

    fn reach(&self) -> Duration {
        match self {
            Self::Gcra(own) => own.reach(),
            Self::Windows(own) => own.reach(),
            Self::Ledger(own) => own.reach(),
        }
    }

    #[inline]
    fn fresh_after(&self, state: &State, now: Timestamp) -> Duration {
        dispatch!(read self, state, |own, value| own.fresh_after(value, now))
    }
}
