//! Several limits on one subject, all or nothing.

use alloc::{borrow::Cow, vec::Vec};
use core::time::Duration;

use super::{Charge, Marks, Transition};
use crate::{Cost, Timestamp, Usage};

/// Several limits on one subject: a cost is charged to all of them, or to none.
///
/// A refusal describes the limit with the longest wait, an admission the one with the fewest permits
/// left. [`Policy::several`](crate::Policy::several) checks that the limits make sense together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Several<T>(pub(super) Vec<T>);

impl<T: Transition> Several<T> {
    fn longest_wait(&self, states: &[T::State], now: Timestamp, cost: Cost) -> Option<Duration> {
        let waits = self.each(states).map(|(_, limit, state)| limit.wait(&state, now, cost));
        waits.reduce(|one, other| Some(one?.max(other?))).unwrap_or(Some(Duration::ZERO))
    }

    /// Returns each limit with its index and its state. A limit without a stored state is fresh.
    fn each<'a>(
        &'a self,
        states: &'a [T::State],
    ) -> impl Iterator<Item = (usize, &'a T, Cow<'a, T::State>)> {
        self.0.iter().enumerate().map(|(index, limit)| {
            let state = states.get(index).map(Cow::Borrowed).unwrap_or_default();
            (index, limit, state)
        })
    }

    fn each_mut<'a>(
        &'a self,
        states: &'a mut Vec<T::State>,
    ) -> impl Iterator<Item = (&'a T, &'a mut T::State)> {
        states.resize_with(self.0.len(), T::State::default);
        self.0.iter().zip(states)
    }
}

impl<T: Transition> Transition for Several<T> {
    /// The states of the limits, in their order. Fresh has none.
    type State = Vec<T::State>;

    fn is_possible(&self, states: &Vec<T::State>, now: Timestamp) -> bool {
        self.each(states).all(|(_, limit, state)| limit.is_possible(&state, now))
    }

    fn advance(&self, states: &mut Vec<T::State>, now: Timestamp) {
        self.each_mut(states).for_each(|(limit, state)| limit.advance(state, now));
    }

    fn wait(&self, states: &Vec<T::State>, now: Timestamp, cost: Cost) -> Option<Duration> {
        let longest = self.longest_wait(states, now, cost)?;
        // The slots of a paced limit, of which there is at most one, may miss the longest wait.
        // What the others admit, they admit from then on.
        let more = self.longest_wait(states, now.saturating_add(longest), cost)?;
        Some(longest.saturating_add(more))
    }

    fn charge(&self, states: &mut Vec<T::State>, at: Timestamp, cost: Cost) -> Marks {
        let mut marks = Marks::default();
        for ((limit, state), mark) in self.each_mut(states).zip(&mut marks.0) {
            *mark = limit.charge(state, at, cost).first();
        }
        marks
    }

    /// Returns the fewest permits that any limit gave back.
    fn refund(
        &self,
        states: &mut Vec<T::State>,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> u64 {
        let marks = charge.marks.0;
        let back = self.each_mut(states).zip(marks).map(|((limit, state), mark)| {
            let charge = Charge { marks: Marks::one(mark), ..*charge };
            limit.refund(state, now, &charge, permits)
        });
        back.min().unwrap_or(0)
    }

    fn usage(&self, states: &Vec<T::State>, now: Timestamp) -> Usage {
        let usages = self.each(states);
        let usages = usages.map(|(index, limit, state)| limit.usage(&state, now).of_limit(index));
        Usage::of_fewest_left(usages)
    }

    fn refusing(&self, states: &Vec<T::State>, now: Timestamp, cost: Cost) -> Usage {
        let waits = self.each(states).map(|(index, limit, state)| {
            (limit.wait(&state, now, cost), limit.usage(&state, now).of_limit(index))
        });
        Usage::of_longest_wait(waits)
    }

    fn longest_delay(&self, states: &Vec<T::State>) -> Duration {
        let delays = self.each(states).map(|(_, limit, state)| limit.longest_delay(&state));
        delays.min().unwrap_or(Duration::ZERO)
    }

    fn is_fresh(&self, states: &Vec<T::State>, now: Timestamp) -> bool {
        self.each(states).all(|(_, limit, state)| limit.is_fresh(&state, now))
    }
}
