//! The transition of a policy, chosen at run time.

use alloc::boxed::Box;
use core::time::Duration;

use super::{
    entries::Entries,
    gcra::{Gcra, Tat},
    ledger::Ledger,
    refunded::Refunded,
    windows::{Counts, WindowKind, Windows},
};
use crate::{Algorithm, Cost, Quota, Timestamp, Usage, charge::Charge};

/// The transition of a limit, from a key's state at a moment to a decision: see
/// [`Policy::transitions`](crate::Policy::transitions).
///
/// A transition reads no clock, takes no lock and awaits nothing, so any store can run it. A store
/// keeps one state a key and serialises the transitions of that key. Each begins with
/// [`advance`](Self::advance), then decides, then charges. A state is the algorithm's own numbers and names no quota:
/// quotas of one [span](crate::Policy::identities) share it.
///
/// Its variants are no part of the interface. Each has the same functions.
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

/// Calls a transition, with its own state. A state of another algorithm, which no store hands out,
/// counts as fresh.
macro_rules! dispatch {
    ($transition:expr, |$own:ident| $call:expr) => {
        match $transition {
            AnyTransition::Gcra($own) => $call,
            AnyTransition::Windows($own) => $call,
            AnyTransition::Ledger($own) => $call,
        }
    };
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

impl AnyTransition {
    /// Returns whether some quota of this span can have left `state` by `now`. An impossible state was left
    /// before the clock stepped back, or is corrupt.
    #[doc(hidden)]
    #[must_use]
    pub fn is_possible(&self, state: &State, now: Timestamp) -> bool {
        dispatch!(read self, state, |own, value| own.is_possible(value, now))
    }

    /// Brings `state` to `now`: replaces an impossible state by a full debt, and may drop what has
    /// expired. A possible debt is never lowered. Returns whether the state was impossible.
    #[doc(hidden)]
    pub fn advance(&self, state: &mut State, now: Timestamp) -> bool {
        dispatch!(write self, state, |own, value| own.advance(value, now))
    }

    /// Returns the time from `now` until `cost` fits, zero if it fits now, `None` if it never will.
    /// `now` may be later than the moment of the last `advance`.
    pub(crate) fn wait(&self, state: &State, now: Timestamp, cost: Cost) -> Option<Duration> {
        dispatch!(read self, state, |own, value| own.wait(value, now, cost))
    }

    /// Charges `cost` for the moment `at`, which is `now` or later, and at which it fits; or for `now` up to
    /// [`most_chargeable`](Self::most_chargeable). Returns the mark by which a refund finds the charge.
    #[doc(hidden)]
    pub fn charge(&self, state: &mut State, now: Timestamp, at: Timestamp, cost: Cost) -> u64 {
        dispatch!(write self, state, |own, value| own.charge(value, now, at, cost))
    }

    /// Returns how many permits can be charged at most for `now` in any case: no fewer than fit.
    ///
    /// By GCRA, until the debt is that of a burst and the horizon. By other algorithms, any number until more
    /// than the limit counts, and then none: if it were none as soon as the limit is reached, a request that
    /// takes the last permit of a log and is charged afterwards would be charged nothing, each time.
    pub(crate) fn most_chargeable(&self, state: &State, now: Timestamp) -> u64 {
        dispatch!(read self, state, |own, value| own.most_chargeable(value, now))
    }

    /// Gives back up to `permits` of a charge by this quota, as far as they still count.
    pub(crate) fn give_back(
        &self,
        state: &mut State,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        dispatch!(write self, state, |own, value| own.give_back(value, now, charge, permits))
    }

    /// Returns how far the permits are used up at `now`.
    #[inline]
    pub(crate) fn usage(&self, state: &State, now: Timestamp) -> Usage {
        dispatch!(read self, state, |own, value| own.usage(value, now))
    }

    /// Returns how far ahead permits may be promised.
    pub(crate) fn horizon(&self) -> Duration {
        dispatch!(self, |own| own.horizon())
    }

    /// Returns the longest for which a possible state is not fresh, under any quota of this span.
    pub(crate) fn reach(&self) -> Duration {
        dispatch!(self, |own| own.reach())
    }

    /// Returns the time until `state` equals a fresh one.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn fresh_after(&self, state: &State, now: Timestamp) -> Duration {
        dispatch!(read self, state, |own, value| own.fresh_after(value, now))
    }
}
