//! The transition of a policy, chosen at run time.

use alloc::{boxed::Box, vec::Vec};
use core::{iter, time::Duration};

use super::{
    entries::Entries,
    gcra::{Gcra, Tat},
    ledger::Ledger,
    transition::{Refunded, Transition},
    window::Counts,
    windows::{WindowKind, Windows},
};
use crate::{
    Algorithm, Cost, Decision, Quota, Timestamp, Usage,
    charge::{Charge, Marks},
};

/// The transition of a policy: that of its algorithm, or of its several limits. See
/// [`Policy::transition`](crate::Policy::transition).
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
    /// Several limits at once.
    #[doc(hidden)]
    AllOf(AllOf),
}

/// The state of a key under a policy. The default is that of a new key.
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
    /// That of [`AllOf`].
    #[doc(hidden)]
    AllOf(Vec<State>),
}

impl AnyTransition {
    /// Returns the transition of several limits together, or of the only one.
    pub(crate) fn all_of(mut limits: Vec<Self>) -> Self {
        match limits.pop() {
            Some(only) if limits.is_empty() => only,
            last => Self::AllOf(AllOf(limits.into_iter().chain(last).collect())),
        }
    }

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
            Self::AllOf(limits) => limits.0.iter().any(Self::has_log),
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
            (Self::AllOf(limits), State::AllOf(states)) => {
                let limits = limits.each(states);
                State::AllOf(limits.map(|(limit, state)| limit.copy_for(state, permits)).collect())
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
            Self::AllOf(states) => states.iter().map(|state| state.entries(own)).sum(),
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
            Self::AllOf(states) => states.iter().map(|state| state.growth(own)).sum(),
            _ => 0,
        }
    }

    /// Lets its logs have so many of such entries more together than they have memory for: those first that would
    /// grow.
    pub(crate) fn set_spare(&mut self, mut spare: usize, own: usize) {
        match self {
            Self::Ledger(entries) => entries.set_room(entries.allocated().max(own), spare),
            Self::AllOf(states) => {
                for state in states {
                    let growth = state.growth(own).min(spare);
                    state.set_spare(growth, own);
                    spare -= growth;
                }
            }
            _ => {}
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
            AnyTransition::AllOf($own) => dispatch!(@$access AllOf, $state, $value, $call),
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

    fn charge(&self, state: &mut State, now: Timestamp, at: Timestamp, cost: Cost) -> Marks {
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

    fn usage(&self, state: &State, now: Timestamp) -> Usage {
        dispatch!(read self, state, |own, value| own.usage(value, now))
    }

    fn refusing(&self, state: &State, now: Timestamp, cost: Cost) -> Usage {
        dispatch!(read self, state, |own, value| own.refusing(value, now, cost))
    }

    fn longest_delay(&self, state: &State, now: Timestamp) -> Duration {
        dispatch!(read self, state, |own, value| own.longest_delay(value, now))
    }

    fn fresh_after(&self, state: &State, now: Timestamp) -> Duration {
        dispatch!(read self, state, |own, value| own.fresh_after(value, now))
    }

    fn decide(
        &self,
        state: &mut State,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        dispatch!(write self, state, |own, value| own.decide(value, now, cost, within))
    }

    fn force_charge(
        &self,
        state: &mut State,
        now: Timestamp,
        cost: Cost,
    ) -> (Decision, Option<Charge>) {
        dispatch!(write self, state, |own, value| own.force_charge(value, now, cost))
    }
}

/// Several limits on one subject: a cost is charged to all of them, or to none.
///
/// A refusal describes the limit with the longest wait, an admission the one with the fewest permits
/// left. [`Policy::all_of`](crate::Policy::all_of) checks that the limits make sense together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllOf(Vec<AnyTransition>);

impl AllOf {
    fn longest_wait(&self, states: &[State], now: Timestamp, cost: Cost) -> Option<Duration> {
        let waits = self.each(states).map(|(limit, state)| limit.wait(state, now, cost));
        waits.reduce(|one, other| Some(one?.max(other?))).unwrap_or(Some(Duration::ZERO))
    }

    /// Returns each limit with its state. A limit without a stored state is fresh.
    fn each<'a>(
        &'a self,
        states: &'a [State],
    ) -> impl Iterator<Item = (&'a AnyTransition, &'a State)> {
        self.0.iter().zip(states.iter().chain(iter::repeat(&State::Fresh)))
    }

    fn each_mut<'a>(
        &'a self,
        states: &'a mut Vec<State>,
    ) -> impl Iterator<Item = (&'a AnyTransition, &'a mut State)> {
        states.resize_with(self.0.len(), State::default);
        self.0.iter().zip(states)
    }
}

impl Transition for AllOf {
    /// The states of the limits, in their order. Fresh has none.
    type State = Vec<State>;

    fn is_possible(&self, states: &Vec<State>, now: Timestamp) -> bool {
        self.each(states).all(|(limit, state)| limit.is_possible(state, now))
    }

    fn advance(&self, states: &mut Vec<State>, now: Timestamp) -> bool {
        let advanced = self.each_mut(states).map(|(limit, state)| limit.advance(state, now));
        advanced.fold(false, |one, other| one | other)
    }

    fn wait(&self, states: &Vec<State>, now: Timestamp, cost: Cost) -> Option<Duration> {
        let longest = self.longest_wait(states, now, cost)?;
        // The slots of a paced limit, of which there is at most one, may miss the longest wait.
        // What the others admit, they admit from then on.
        let more = self.longest_wait(states, now.saturating_add(longest), cost)?;
        Some(longest.saturating_add(more))
    }

    fn charge(&self, states: &mut Vec<State>, now: Timestamp, at: Timestamp, cost: Cost) -> Marks {
        let mut marks = Marks::default();
        for ((limit, state), mark) in self.each_mut(states).zip(&mut marks.0) {
            *mark = limit.charge(state, now, at, cost).first();
        }
        marks
    }

    fn most_chargeable(&self, states: &Vec<State>, now: Timestamp) -> u64 {
        let limits = self.each(states).map(|(limit, state)| limit.most_chargeable(state, now));
        limits.min().unwrap_or(0)
    }

    fn refundable(
        &self,
        states: &Vec<State>,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let back = self.each(states).zip(charge.of_each_limit());
        let back =
            back.map(|((limit, state), charge)| limit.refundable(state, now, &charge, permits));
        let all = |one: Refunded, other: Refunded| Refunded {
            permits: one.permits.max(other.permits),
            is_whole: one.is_whole && other.is_whole,
        };
        back.reduce(all).unwrap_or(Refunded::NOTHING)
    }

    fn give_back(&self, states: &mut Vec<State>, now: Timestamp, charge: &Charge, permits: u64) {
        for ((limit, state), charge) in self.each_mut(states).zip(charge.of_each_limit()) {
            limit.give_back(state, now, &charge, permits);
        }
    }

    fn usage(&self, states: &Vec<State>, now: Timestamp) -> Usage {
        let usages = self.each(states).map(|(limit, state)| limit.usage(state, now)).enumerate();
        Usage::fewest_remaining(usages.map(|(index, usage)| usage.with_limit_index(index)))
    }

    fn refusing(&self, states: &Vec<State>, now: Timestamp, cost: Cost) -> Usage {
        let waits = self.each(states).enumerate().map(|(index, (limit, state))| {
            (limit.wait(state, now, cost), limit.usage(state, now).with_limit_index(index))
        });
        Usage::longest_wait(waits)
    }

    fn longest_delay(&self, states: &Vec<State>, now: Timestamp) -> Duration {
        let delays = self.each(states).map(|(limit, state)| limit.longest_delay(state, now));
        delays.min().unwrap_or(Duration::ZERO)
    }

    fn fresh_after(&self, states: &Vec<State>, now: Timestamp) -> Duration {
        let times = self.each(states).map(|(limit, state)| limit.fresh_after(state, now));
        times.max().unwrap_or_default()
    }

    /// A limit that has been overshot does not keep the others from being charged.
    fn force_charge(
        &self,
        states: &mut Vec<State>,
        now: Timestamp,
        cost: Cost,
    ) -> (Decision, Option<Charge>) {
        let (mut fewest, mut marks) = (cost.get(), Marks::default());
        for ((limit, state), mark) in self.each_mut(states).zip(&mut marks.0) {
            let charged = limit.force_charge(state, now, cost).1;
            fewest = fewest.min(charged.map_or(0, |charge| charge.cost.get()));
            *mark = charged.map_or(0, |charge| charge.marks.first());
        }
        let charge = Cost::new(fewest).ok();
        let charge = charge.map(|cost| Charge { made: now, at: now, cost, marks });
        (Decision::admitted(self.usage(states, now)), charge)
    }
}
