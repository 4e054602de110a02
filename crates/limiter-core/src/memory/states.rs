//! The operations of a limiter on the states of a key, and what they charged.

use core::time::Duration;

use smallvec::SmallVec;

use super::{
    held::operate,
    place::Place,
    tables::{Limits, Tables},
};
use crate::{
    Cost, Decision, Timestamp,
    algorithms::{AnyTransition, KeyStates},
    charge::Charged,
};

/// The present by the two times of a clock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Present {
    /// As the states count it: Unix time with aligned windows.
    pub(crate) now: Timestamp,
    /// By [`Clock::now`](crate::Clock::now), by which waiters sleep and have their deadlines, because Unix time may step.
    pub(crate) monotonic: Timestamp,
}

impl Present {
    /// Returns when a moment of the states' time comes by [`Clock::now`](crate::Clock::now): at once if it is past.
    pub(crate) fn by_the_clock(self, moment: Timestamp) -> Timestamp {
        self.monotonic.saturating_add(moment.saturating_since(self.now))
    }
}

/// A decision, when it was made, and what was charged by it.
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    pub(crate) now: Timestamp,
    pub(crate) charged: Option<Charged>,
}

impl Tables {
    /// Returns where the state with a hash is.
    #[inline(always)]
    pub(crate) fn place<'a>(&'a self, transition: &'a AnyTransition, hash: u64) -> Place<'a> {
        Place { tables: self, transition, hash, only_asks: false }
    }

    /// Returns where the states of a key are.
    pub(crate) fn places<'a>(
        &'a self,
        limits: &'a Limits,
        key: u64,
    ) -> impl Iterator<Item = Place<'a>> {
        limits.salted.iter().map(move |(transition, salt)| self.place(transition, key ^ salt))
    }

    /// Runs an operation on the states of a key, at present or when a waiter was `due`.
    #[inline]
    pub(crate) fn operate<R>(
        &self,
        limits: &Limits,
        key: u64,
        due: Option<Timestamp>,
        operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
    ) -> R {
        if let [(transition, salt)] = limits.salted.as_slice() {
            return operate(&[self.place(transition, key ^ salt)], due, operation);
        }
        let mut places = SmallVec::<[Place<'_>; 4]>::new();
        for place in self.places(limits, key) {
            places.push(place);
        }
        operate(&places, due, operation)
    }

    /// Runs an operation that may charge the states of a key.
    #[inline]
    pub(crate) fn decide(
        &self,
        limits: &Limits,
        key: u64,
        due: Option<Timestamp>,
        operation: impl FnOnce(&mut KeyStates<'_, '_>) -> Decision,
    ) -> Outcome {
        let outcome = self.operate(limits, key, due, |states| {
            let decision = operation(states);
            let epoch = self.epoch();
            let charged = states.charges().map(|charges| Charged { charges, epoch });
            Outcome { decision, now: states.now(), charged }
        });
        self.count_if_full(&outcome.decision);
        outcome
    }

    /// Charges a cost if it fits now or up to `within` later; or for a waiter, at the moment at which it was `due`.
    pub(crate) fn take(
        &self,
        limits: &Limits,
        key: u64,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        self.decide(limits, key, due, |states| states.take(cost, within))
    }

    /// Returns how long a cost has to wait, `None` for ever, and since when.
    pub(crate) fn wait(
        &self,
        limits: &Limits,
        key: u64,
        cost: Cost,
    ) -> (Option<Duration>, Timestamp) {
        self.operate(limits, key, None, |states| (states.wait(cost), states.now()))
    }

    /// Returns the refusal of what would have to wait.
    pub(crate) fn refusal(&self, limits: &Limits, key: u64, wait: Option<Duration>) -> Outcome {
        let usage = self.operate(limits, key, None, |states| states.usage());
        let decision = Decision::refused(usage, wait);
        Outcome { decision, now: self.present().now, charged: None }
    }

    /// Gives back up to `permits` of what was charged to a key, and returns how many came back: none in a later epoch, which
    /// shows when the states are held.
    pub(crate) fn refund(&self, limits: &Limits, key: u64, charged: &Charged, permits: u64) -> u64 {
        self.operate(limits, key, None, |states| match self.epoch() == charged.epoch {
            true => states.refund(&charged.charges, permits),
            false => 0,
        })
    }

    /// Returns the present by both times.
    pub(crate) fn present(&self) -> Present {
        let now = self.now(&*self.clock);
        let monotonic = if self.reads_unix_time() { self.clock.now() } else { now };
        Present { now, monotonic }
    }
}
