//! The operations, over one algorithm and one kind of store.

use alloc::sync::Arc;
use core::time::Duration;

use super::{
    place::{Turn, Waiter},
    queue::{Outcome, Queues, Ticket},
    store::{Dated, Moment, Own, Promised, Store, Tiers},
};
use crate::{Cost, Timestamp, Usage, algorithm::Algorithm};

/// One kind of algorithm with all its states, and those who wait for them.
#[derive(Debug)]
pub(super) struct Engine<A: Algorithm, S> {
    states: S,
    promised: Promised,
    queues: Queues<A::State>,
}

/// Who asks, by which tier, and when.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) hash: u64,
    pub(super) tier: usize,
    pub(super) moment: Moment<'a>,
}

impl Ask<'_> {
    /// Asks at the present moment, which may have become a later one.
    fn again(self) -> Self {
        Self { moment: self.moment.again(), ..self }
    }
}

impl<A: Algorithm, S: Store<A>> Engine<A, S> {
    pub(super) fn new(states: S) -> Self {
        Self { states, promised: Promised::default(), queues: Queues::default() }
    }

    /// Takes permits now or `within` some time, unless others wait for them.
    #[inline]
    pub(super) fn reserve(&self, ask: Ask<'_>, cost: Cost, within: Duration) -> Outcome {
        if self.queues.are_empty_for(ask.hash) {
            return self.take(ask, cost, within).1;
        }
        self.queues.lock(ask.hash).reserve(self, ask.again(), cost, within)
    }

    pub(super) fn peek(&self, ask: Ask<'_>) -> Usage {
        self.on_state(ask, |algorithm, state, now, _| algorithm.usage(state, now))
    }

    pub(super) fn refund(&self, ask: Ask<'_>, charge: &Dated, permits: u64) {
        self.give_back(ask, charge, permits);
        self.reconsider(ask);
    }

    pub(super) fn reset(&self, ask: Ask<'_>) {
        self.states.reset(ask.hash, ask.moment);
        self.reconsider(ask);
    }

    /// Those who wait have to be told: see [`reconsider_all`](Self::reconsider_all).
    pub(super) fn replace(&self, tiers: Tiers<A>, moment: Moment<'_>) {
        self.states.replace(Arc::new(tiers), moment, &self.promised);
    }

    /// Lets the first in each queue see that the quota has changed.
    pub(super) fn reconsider_all(&self, clock: &dyn Fn() -> Timestamp) {
        for hash in self.queues.hashes() {
            self.reconsider(Ask { hash, tier: 0, moment: Moment::by(clock) });
        }
    }

    /// Lets a waiter have its turn; one without a ticket takes a place in the queue if it has to.
    pub(super) fn turn(
        &self,
        ask: Ask<'_>,
        ticket: &mut Option<Ticket>,
        waiter: Waiter<'_>,
    ) -> Turn {
        self.queues.lock(ask.hash).turn(self, ask.again(), ticket, waiter)
    }

    /// Gives up a place in the queue, and what may have been taken for it.
    pub(super) fn leave(&self, ask: Ask<'_>, ticket: Ticket) {
        self.queues.lock(ask.hash).leave(self, ask.again(), ticket);
    }

    /// Lets the first in the queue see that permits may have come back.
    fn reconsider(&self, ask: Ask<'_>) {
        if !self.queues.are_empty_for(ask.hash) {
            self.queues.lock(ask.hash).reconsider(self, ask.again());
        }
    }

    /// Takes permits now or `within` some time, whoever waits, and tells when that was.
    #[inline]
    pub(super) fn take(&self, ask: Ask<'_>, cost: Cost, within: Duration) -> (Timestamp, Outcome) {
        self.on_state(ask, |algorithm, state, now, past| {
            let (decision, charge) = algorithm.reserve(state, now, cost, within);
            if let Some(charge) = charge
                && charge.at > now
            {
                self.promised.note(charge.at);
            }
            (now, (decision, charge.map(|charge| past.date(charge))))
        })
    }

    /// Gives permits back, whoever waits.
    pub(super) fn give_back(&self, ask: Ask<'_>, charge: &Dated, permits: u64) {
        self.on_state(ask, |algorithm, state, now, past| {
            past.refund(algorithm, state, now, charge, permits);
        });
    }

    /// Returns the longest that anyone may wait.
    pub(super) fn longest_delay(&self, ask: Ask<'_>) -> Duration {
        self.on_state(ask, |algorithm, _, _, _| algorithm.longest_delay())
    }

    /// Returns whether `cost` may join a queue without a look at how long that is.
    pub(super) fn always_queues(&self, ask: Ask<'_>, cost: Cost) -> bool {
        self.on_state(ask, |algorithm, _, now, _| {
            let can_fit = algorithm.wait(&A::State::default(), now, cost).is_some();
            can_fit && algorithm.longest_delay() == Duration::MAX
        })
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const fn queues(&self) -> &Queues<A::State> {
        &self.queues
    }

    /// Runs `transition` on the state, brought to the present.
    #[inline]
    fn on_state<R>(
        &self,
        ask: Ask<'_>,
        transition: impl FnOnce(&A, &mut A::State, Timestamp, Own<'_>) -> R,
    ) -> R {
        self.states.with(ask.hash, ask.moment, &self.promised, |tiers, state, now, past| {
            let algorithm = tiers.of(ask.tier);
            algorithm.advance(state, now, self.promised.by(now));
            transition(algorithm, state, now, past)
        })
    }

    /// Returns the algorithms that may be applied to the state.
    pub(super) fn tiers(&self, ask: Ask<'_>) -> Arc<Tiers<A>> {
        self.states.with(ask.hash, ask.moment, &self.promised, |tiers, _, _, _| Arc::clone(tiers))
    }

    /// Returns a copy of the state, and the algorithms that may be applied to it.
    pub(super) fn snapshot(&self, ask: Ask<'_>) -> (Arc<Tiers<A>>, A::State) {
        self.states.with(ask.hash, ask.moment, &self.promised, |tiers, state, now, _| {
            tiers.of(ask.tier).advance(state, now, self.promised.by(now));
            (Arc::clone(tiers), state.clone())
        })
    }
}
