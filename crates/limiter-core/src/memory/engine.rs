//! The operations, over one algorithm and one kind of store.

use alloc::sync::Arc;
use core::time::Duration;

use super::{
    place::{Turn, Waiter},
    queue::{Queues, Ticket},
    store::{Promised, Store, Tiers},
};
use crate::{
    Cost, Decision, Timestamp, Usage,
    algorithm::{Algorithm, Charge},
};

/// One kind of algorithm with all its states, and those who wait for them.
#[derive(Debug)]
pub(super) struct Engine<A: Algorithm, S> {
    states: S,
    promised: Promised,
    queues: Queues<A::State>,
}

/// Who asks, by which tier, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) hash: u64,
    pub(super) tier: usize,
    pub(super) now: Timestamp,
}

impl<A: Algorithm, S: Store<A>> Engine<A, S> {
    pub(super) fn new(states: S) -> Self {
        Self { states, promised: Promised::default(), queues: Queues::default() }
    }

    /// Takes permits now or `within` some time, unless others wait for them.
    #[inline]
    pub(super) fn reserve(
        &self,
        ask: Ask,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        if self.queues.are_empty_for(ask.hash) {
            return self.take(ask, cost, within);
        }
        self.queues.lock(ask.hash).reserve(self, ask, cost, within)
    }

    pub(super) fn peek(&self, ask: Ask) -> Usage {
        self.on_state(ask, |algorithm, state| algorithm.usage(state, ask.now))
    }

    pub(super) fn refund(&self, ask: Ask, charge: &Charge, permits: u64) {
        self.give_back(ask, charge, permits);
        self.reconsider(ask);
    }

    pub(super) fn reset(&self, ask: Ask) {
        self.states.reset(ask.hash, ask.now);
        self.reconsider(ask);
    }

    /// Those who wait have to be told: see [`reconsider_all`](Self::reconsider_all).
    pub(super) fn replace(&self, tiers: Tiers<A>) {
        self.states.replace(Arc::new(tiers));
    }

    /// Lets the first in each queue see that the quota has changed.
    pub(super) fn reconsider_all(&self, now: Timestamp) {
        for hash in self.queues.hashes() {
            self.reconsider(Ask { hash, tier: 0, now });
        }
    }

    /// Lets a waiter have its turn; one without a ticket takes a place in the queue if it has to.
    pub(super) fn turn(&self, ask: Ask, ticket: &mut Option<Ticket>, waiter: Waiter<'_>) -> Turn {
        self.queues.lock(ask.hash).turn(self, ask, ticket, waiter)
    }

    /// Gives up a place in the queue, and what may have been taken for it.
    pub(super) fn leave(&self, ask: Ask, ticket: Ticket) {
        self.queues.lock(ask.hash).leave(self, ask, ticket);
    }

    /// Lets the first in the queue see that permits may have come back.
    fn reconsider(&self, ask: Ask) {
        if !self.queues.are_empty_for(ask.hash) {
            self.queues.lock(ask.hash).reconsider(self, ask.now);
        }
    }

    /// Takes permits now or `within` some time, whoever waits.
    #[inline]
    pub(super) fn take(
        &self,
        ask: Ask,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        self.on_state(ask, |algorithm, state| {
            let (decision, charge) = algorithm.reserve(state, ask.now, cost, within);
            if let Some(charge) = charge
                && charge.at > ask.now
            {
                self.promised.note(charge.at);
            }
            (decision, charge)
        })
    }

    /// Gives permits back, whoever waits.
    pub(super) fn give_back(&self, ask: Ask, charge: &Charge, permits: u64) {
        self.on_state(ask, |algorithm, state| algorithm.refund(state, ask.now, charge, permits));
    }

    /// Returns the longest that anyone may wait.
    pub(super) fn longest_delay(&self, ask: Ask) -> Duration {
        self.on_state(ask, |algorithm, _| algorithm.longest_delay())
    }

    /// Returns whether `cost` may join a queue without a look at how long that is.
    pub(super) fn always_queues(&self, ask: Ask, cost: Cost) -> bool {
        self.on_state(ask, |algorithm, _| {
            let can_fit = algorithm.wait(&A::State::default(), ask.now, cost).is_some();
            can_fit && algorithm.longest_delay() == Duration::MAX
        })
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const fn queues(&self) -> &Queues<A::State> {
        &self.queues
    }

    /// Runs `transition` on the state, brought to the present.
    #[inline]
    fn on_state<R>(&self, ask: Ask, transition: impl FnOnce(&A, &mut A::State) -> R) -> R {
        self.states.with(ask.hash, ask.now, &self.promised, |tiers, state| {
            let algorithm = tiers.of(ask.tier);
            algorithm.advance(state, ask.now, self.promised.by(ask.now));
            transition(algorithm, state)
        })
    }

    /// Returns a copy of the state, and the algorithms that may be applied to it.
    pub(super) fn snapshot(&self, ask: Ask) -> (Arc<Tiers<A>>, A::State) {
        self.states.with(ask.hash, ask.now, &self.promised, |tiers, state| {
            (Arc::clone(tiers), state.clone())
        })
    }
}
