//! The operations of every limiter, on the states of a key under the limits of a policy: all are charged, or none.

use core::{ops::Range, time::Duration};

use smallvec::SmallVec;

use super::{AnyTransition, State};
use crate::{
    Cost, Decision, Source, Timestamp, Usage,
    charge::{Charge, Charges},
};

/// The states of a key under the limits of a policy, each at its present.
#[derive(Debug)]
pub struct KeyStates<'s, 'a> {
    /// In any order. Two limits may share a state.
    states: &'s mut [&'a mut State],
    limits: &'s mut [LimitState<'a>],
}

/// A state under one limit, which was [advanced](AnyTransition::advance) to its present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitState<'a> {
    pub(crate) transition: &'a AnyTransition,
    /// Which of the states it is.
    pub(crate) index: usize,
    pub(crate) now: Timestamp,
    /// If the key has no state, why.
    pub(crate) full: Option<Full>,
    pub(crate) charge: Option<Charge>,
}

/// A key has no state, because its table has no room for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// Until there is room.
    pub(crate) wait: Duration,
    /// Whether the key is admitted meanwhile, and not counted.
    pub(crate) admits: bool,
}

/// Runs an operation at a moment on a key's states: one for each limit, in the order of
/// [`Policy::transitions`](crate::Policy::transitions).
///
/// # Panics
///
/// If there are more limits than states, or fewer.
pub fn operate<R>(
    limits: &[AnyTransition],
    states: &mut [State],
    now: Timestamp,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let (number, of_states) = (limits.len(), states.len());
    assert!(number == of_states, "{of_states} states for {number} limits: use one for each limit");
    let mut at_present = SmallVec::<[LimitState<'_>; 1]>::new();
    let mut own = SmallVec::<[&mut State; 1]>::new();
    for (index, (transition, state)) in limits.iter().zip(states).enumerate() {
        transition.advance(state, now);
        at_present.push(LimitState::new(transition, index, now));
        own.push(state);
    }
    operation(&mut KeyStates::new(&mut own, &mut at_present))
}

impl<'s, 'a> KeyStates<'s, 'a> {
    pub(crate) fn new(states: &'s mut [&'a mut State], limits: &'s mut [LimitState<'a>]) -> Self {
        Self { states, limits }
    }

    /// Returns the states under some of the limits.
    pub(crate) fn of(&mut self, limits: Range<usize>) -> KeyStates<'_, 'a> {
        KeyStates { states: self.states, limits: self.limits.get_mut(limits).unwrap_or_default() }
    }

    /// Returns the present under the first limit.
    pub(crate) fn now(&self) -> Timestamp {
        self.limits.first().map_or(Timestamp::ZERO, |limit| limit.now)
    }

    /// Returns when the key has room for its first state, and a copy of the state then, which gives the same waits for the
    /// next `permits` that are charged or asked for.
    pub(crate) fn copy_for(&self, permits: u64) -> (Timestamp, State) {
        match self.limits.first() {
            Some(limit @ LimitState { full: None, .. }) => {
                (limit.now, limit.transition.copy_for(limit.state(self.states), permits))
            }
            Some(LimitState { full: Some(full), now, .. }) => {
                (now.saturating_add(full.wait), State::Fresh)
            }
            None => Default::default(),
        }
    }

    /// Returns whether two limits share a state.
    pub(crate) fn are_shared(&self) -> bool {
        self.states.len() < self.limits.len()
    }

    /// Returns copies of all states.
    pub(crate) fn copies(&self) -> SmallVec<[State; 4]> {
        self.states.iter().map(|state| State::clone(state)).collect()
    }

    /// Replaces all states, and forgets what was charged.
    pub(crate) fn restore(&mut self, copies: SmallVec<[State; 4]>) {
        for (state, copy) in self.states.iter_mut().zip(copies) {
            **state = copy;
        }
        self.forget_charges();
    }

    fn forget_charges(&mut self) {
        self.limits.iter_mut().for_each(|limit| limit.charge = None);
    }

    /// Returns the usage of the limit with the fewest permits left.
    #[must_use]
    #[inline]
    pub fn usage(&self) -> Usage {
        match &*self.limits {
            [limit] => limit.usage(self.states),
            _ => Usage::fewest_remaining(self.usages()),
        }
    }

    fn usages(&self) -> impl Iterator<Item = Usage> {
        let usages = self.limits.iter().map(|limit| limit.usage(self.states));
        usages.enumerate().map(|(index, usage)| usage.with_limit_index(index))
    }

    /// Returns the time until a cost fits all limits, `None` for ever.
    #[must_use]
    #[inline]
    pub fn wait(&self, cost: Cost) -> Option<Duration> {
        if let [limit] = &*self.limits {
            return limit.wait(self.states, Duration::ZERO, cost);
        }
        let longest_from = |later| {
            let mut waits = self.limits.iter().map(|limit| limit.wait(self.states, later, cost));
            waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
        };
        let first = longest_from(Duration::ZERO)?;
        if first.is_zero() {
            return Some(first);
        }
        // At most one limit is paced, and its slots may miss the longest wait. What the others admit, they admit from
        // then on.
        Some(first.saturating_add(longest_from(first)?))
    }

    /// Returns the decision on a cost that has to wait so long, with the present usage.
    #[inline]
    pub fn decision(&self, cost: Cost, wait: Option<Duration>) -> Decision {
        let own = |limit: &LimitState<'_>| limit.wait(self.states, Duration::ZERO, cost);
        let decision = match (wait, &*self.limits) {
            (Some(Duration::ZERO), _) => Decision::admitted(self.usage()),
            (_, [limit]) => Decision::refused(limit.usage(self.states), wait),
            (_, limits) => {
                let waits = limits.iter().map(own).zip(self.usages());
                Decision::refused(Usage::longest_wait(waits), wait)
            }
        };
        let decides = |limit: &LimitState<'_>| decision.is_admitted() || own(limit) == wait;
        match self.limits.iter().any(|limit| limit.full.is_some() && decides(limit)) {
            true => decision.with_source(Source::FullTable),
            false => decision,
        }
    }

    /// Charges a cost if it fits now or up to `within` later, as far ahead as all limits promise permits.
    #[inline]
    pub fn take(&mut self, cost: Cost, within: Duration) -> Decision {
        let wait = self.wait(cost);
        let promised = |wait: &Duration| {
            let promises =
                |it: &LimitState<'_>| it.full.is_none() && *wait <= it.transition.horizon();
            self.limits.iter().all(promises)
        };
        match wait.filter(|wait| wait.is_zero() || *wait <= within && promised(wait)) {
            Some(delay) => self.charge_after(delay, cost),
            None => {
                self.forget_charges();
                self.decision(cost, wait)
            }
        }
    }

    /// Charges a cost that fits after a delay.
    #[inline]
    pub(crate) fn charge_after(&mut self, delay: Duration, cost: Cost) -> Decision {
        for limit in &mut *self.limits {
            limit.charge(self.states, delay, cost);
        }
        self.decision(cost, Some(Duration::ZERO))
    }

    /// Returns what the last operation charged: `None` if nothing was, or if a limit had no state that could be.
    #[must_use]
    #[inline]
    pub fn charges(&self) -> Option<Charges> {
        let mut charges: Option<Charges> = None;
        for limit in &*self.limits {
            let charge = limit.charge?;
            match &mut charges {
                Some(charges) => charges.marks.push(charge.mark),
                None => charges = Some(charge.into()),
            }
        }
        charges
    }

    /// Charges as many permits as fit now, at most `most`. If not one fits, this is a refusal with the wait for one.
    pub fn take_up_to(&mut self, most: Cost) -> Decision {
        let fitting = Cost::new(most.get().min(self.usage().remaining()));
        self.take(fitting.unwrap_or(Cost::ONE), Duration::ZERO)
    }

    /// Charges a cost to each limit whether or not it fits, up to the limit's own bound. What can be given back is the
    /// fewest permits that one of them was charged.
    pub fn charge(&mut self, cost: Cost) -> Decision {
        self.forget_charges();
        if self.limits.iter().any(|limit| limit.full.is_some()) {
            return self.decision(Cost::ONE, self.wait(Cost::ONE));
        }
        for limit in &mut *self.limits {
            let most = limit.transition.most_chargeable(limit.state(self.states), limit.now);
            if let Ok(cost) = Cost::new(cost.get().min(most)) {
                limit.charge(self.states, Duration::ZERO, cost);
            }
        }
        let charges = || self.limits.iter().filter_map(|limit| limit.charge);
        let fewest = charges().map(|charge| charge.cost).min().unwrap_or(cost);
        for charge in self.limits.iter_mut().filter_map(|limit| limit.charge.as_mut()) {
            charge.cost = fewest;
        }
        Decision::admitted(self.usage())
    }

    /// Gives back up to `permits` of a charge by these limits, and returns the most that came back to one. Before its
    /// moment, a charge comes back whole to all limits, or not at all.
    pub fn refund(&mut self, charges: &Charges, permits: u64) -> u64 {
        let charges = || self.limits.iter().zip(charges.iter());
        if !charges().all(|(limit, charge)| limit.may_give_back(self.states, &charge, permits)) {
            return 0;
        }
        let back = charges().map(|(limit, charge)| limit.give_back(self.states, &charge, permits));
        back.max().unwrap_or(0)
    }
}

impl<'a> LimitState<'a> {
    pub(crate) fn new(transition: &'a AnyTransition, index: usize, now: Timestamp) -> Self {
        Self { transition, index, now, full: None, charge: None }
    }

    #[expect(clippy::indexing_slicing, reason = "a limit has one of the states")]
    #[inline]
    fn state<'s>(&self, states: &'s [&mut State]) -> &'s State {
        states[self.index]
    }

    /// Returns how long a cost waits from a later moment on, `None` for ever.
    #[inline]
    fn wait(&self, states: &[&mut State], later: Duration, cost: Cost) -> Option<Duration> {
        let Self { transition, now, .. } = self;
        let Some(Full { wait, admits }) = self.full else {
            return transition.wait(self.state(states), now.saturating_add(later), cost);
        };
        let from_then = transition.wait(&State::Fresh, now.saturating_add(wait), cost)?;
        let until_it_fits = wait.saturating_add(from_then).saturating_sub(later);
        Some(if admits { Duration::ZERO } else { until_it_fits })
    }

    #[inline]
    fn usage(&self, states: &[&mut State]) -> Usage {
        let Some(Full { wait, admits }) = self.full else {
            return self.transition.usage(self.state(states), self.now);
        };
        let fresh = self.transition.usage(&State::Fresh, self.now.saturating_add(wait));
        if admits { fresh } else { Usage::new(fresh.burst(), 0, wait) }
    }

    /// Charges a cost after a delay. A key for which the table is full is charged nothing.
    #[expect(clippy::indexing_slicing, reason = "a limit has one of the states")]
    #[inline]
    fn charge(&mut self, states: &mut [&mut State], delay: Duration, cost: Cost) {
        if self.full.is_none() {
            let (made, at) = (self.now, self.now.saturating_add(delay));
            let mark = self.transition.charge(states[self.index], made, at, cost);
            self.charge = Some(Charge { made, at, cost, mark });
        }
    }

    /// Returns whether a refund counts: not before the charge was made, and before its moment only if all comes back,
    /// because what is reserved behind it relies on the rest.
    fn may_give_back(&self, states: &[&mut State], charge: &Charge, permits: u64) -> bool {
        let Self { transition, now, .. } = *self;
        let is_whole = || {
            let mut copy = self.state(states).clone();
            transition.give_back(&mut copy, now, charge, permits).is_whole
        };
        self.full.is_none() && now >= charge.made && (now >= charge.at || is_whole())
    }

    #[expect(clippy::indexing_slicing, reason = "a limit has one of the states")]
    fn give_back(&self, states: &mut [&mut State], charge: &Charge, permits: u64) -> u64 {
        let Self { transition, now, index, .. } = *self;
        transition.give_back(states[index], now, charge, permits).permits
    }
}
