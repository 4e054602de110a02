//! Several limits on one subject, all or nothing.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Algorithm, Charge, Mark, Single, State};
use crate::{Cost, Error, Limit, Policy, Timestamp, Usage};

/// Several limits on one subject: a cost is charged to all of them, or to none.
///
/// A refusal tells of the limit with the longest wait, an admission of the one with the fewest
/// permits left. Whether the limits make sense together is checked by
/// [`Policy::several`](crate::Policy::several).
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{
///     Cost, Policy, Quota, Timestamp,
///     algorithm::{Algorithm, Several, States},
/// };
///
/// let policy = Policy::several("api", [
///     Policy::gcra("burst", Quota::per_second(2)?)?,
///     Policy::fixed_window("daily", Quota::per_day(3)?)?,
/// ])?;
/// let several = Several::new(policy.limits())?;
/// let (mut state, now) = (States::default(), Timestamp::ZERO);
/// assert!(several.decide(&mut state, now, Cost::new(2)?).is_admitted());
///
/// let refusal = several.decide(&mut state, now, Cost::new(2)?);
/// assert_eq!(policy.limits()[refusal.limit_index()].name(), "daily");
/// assert_eq!(refusal.retry_after(), Some(Duration::from_secs(86_400)));
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Several {
    /// No more than [`Policy::MAX_LIMITS`].
    limits: Vec<Single>,
}

/// The states of several limits, in their order. Fresh has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States(Vec<State>);

impl States {
    pub(super) const FRESH: Self = Self(Vec::new());
}

impl Several {
    pub(super) const NONE: Self = Self { limits: Vec::new() };

    /// Returns the algorithm for `limits`, of which those beyond [`Policy::MAX_LIMITS`] are left
    /// out.
    ///
    /// # Errors
    ///
    /// As the constructors of the limits' algorithms.
    pub fn new(limits: &[Limit]) -> Result<Self, Error> {
        let limits = limits.iter().take(Policy::MAX_LIMITS);
        let limits = limits.map(|limit| Single::new(limit.kind(), limit.quota()));
        Ok(Self { limits: limits.collect::<Result<_, _>>()? })
    }

    /// Returns the algorithms of the limits, in their order.
    #[must_use]
    pub fn limits(&self) -> &[Single] {
        &self.limits
    }

    fn longest_wait(&self, states: &States, now: Timestamp, cost: Cost) -> Option<Duration> {
        let waits = self.each(states).map(|(_, limit, state)| limit.wait(state, now, cost));
        waits.reduce(|one, other| Some(one?.max(other?))).unwrap_or(Some(Duration::ZERO))
    }

    /// Returns each limit with its index and its state.
    fn each<'a>(
        &'a self,
        states: &'a States,
    ) -> impl Iterator<Item = (usize, &'a Single, &'a State)> {
        let states = states.0.iter().chain(core::iter::repeat(&State::Fresh));
        let each = self.limits.iter().zip(states).enumerate();
        each.map(|(index, (limit, state))| (index, limit, state))
    }

    fn each_mut<'a>(
        &'a self,
        states: &'a mut States,
    ) -> impl Iterator<Item = (&'a Single, &'a mut State)> {
        states.0.resize_with(self.limits.len(), State::default);
        self.limits.iter().zip(&mut states.0)
    }
}

impl Algorithm for Several {
    type State = States;

    fn advance(&self, states: &mut States, now: Timestamp, promised: Timestamp) {
        for (limit, state) in self.each_mut(states) {
            limit.advance(state, now, promised);
        }
    }

    fn wait(&self, states: &States, now: Timestamp, cost: Cost) -> Option<Duration> {
        let longest = self.longest_wait(states, now, cost)?;
        // A paced limit, of which there is one at most, has slots that the longest wait may miss.
        // What the others admit, they admit from then on.
        let more = self.longest_wait(states, now.saturating_add(longest), cost)?;
        Some(longest.saturating_add(more))
    }

    fn charge(&self, states: &mut States, at: Timestamp, cost: Cost) -> Mark {
        let mut mark = Mark::default();
        for ((limit, state), word) in self.each_mut(states).zip(&mut mark.0) {
            *word = limit.charge(state, at, cost).word();
        }
        mark
    }

    fn owe(&self, states: &mut States, at: Timestamp, cost: Cost) {
        self.each_mut(states).for_each(|(limit, state)| limit.owe(state, at, cost));
    }

    fn refund(&self, states: &mut States, now: Timestamp, charge: &Charge, permits: u64) -> bool {
        let mut moved = false;
        for ((limit, state), word) in self.each_mut(states).zip(charge.mark.0) {
            let charge = Charge { mark: Mark::one(word), ..*charge };
            moved |= limit.refund(state, now, &charge, permits);
        }
        moved
    }

    fn usage(&self, states: &States, now: Timestamp) -> Usage {
        let usages = self.each(states);
        let usages = usages.map(|(index, limit, state)| limit.usage(state, now).of_limit(index));
        Usage::of_fewest_left(usages)
    }

    fn refusing(&self, states: &States, now: Timestamp, cost: Cost) -> Usage {
        let waits = self.each(states).map(|(index, limit, state)| {
            (limit.wait(state, now, cost), limit.usage(state, now).of_limit(index))
        });
        Usage::of_longest_wait(waits)
    }

    fn longest_delay(&self) -> Duration {
        self.limits.iter().map(Single::longest_delay).min().unwrap_or(Duration::MAX)
    }

    fn with_origin(&self, origin: Timestamp) -> Self {
        Self { limits: self.limits.iter().map(|limit| limit.with_origin(origin)).collect() }
    }

    fn adopt(&self, states: &mut States, from: &Self, now: Timestamp) {
        for ((limit, state), old) in self.each_mut(states).zip(&from.limits) {
            limit.adopt(state, old, now);
        }
    }

    fn is_fresh(&self, states: &States, now: Timestamp) -> bool {
        self.each(states).all(|(_, limit, state)| limit.is_fresh(state, now))
    }
}
