//! Several quotas for one key, of which each request names one.

use alloc::{sync::Arc, vec::Vec};
use core::{iter, time::Duration};

use super::{Algorithm, Charge, Mark, Several, States};
use crate::{Cost, Decision, Timestamp, Usage};

/// One tier of a policy, over states in which all tiers keep account.
///
/// A request is decided by its own tier, and what that admits is owed by all: so each tier's state
/// is what it would be if all requests had been its own. A key that changes its tier has taken what
/// it has taken, and waits no longer than its new tier can make it wait; and tiers that take turns
/// on one key admit no more than each allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiered {
    tiers: Arc<[Several]>,
    own: usize,
}

/// The states of all tiers, in their order. Fresh has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierStates(Vec<States>);

impl Tiered {
    /// Returns the algorithms of a policy and of its `others`, in their order.
    #[must_use]
    pub fn all(policy: Several, others: Vec<Several>) -> (Self, Vec<Self>) {
        let tiers: Arc<[Several]> = iter::once(policy).chain(others).collect();
        let of = |own| Self { tiers: Arc::clone(&tiers), own };
        (of(0), (1..tiers.len()).map(of).collect())
    }

    fn each_mut<'a>(
        &'a self,
        states: &'a mut TierStates,
    ) -> impl Iterator<Item = (usize, &'a Several, &'a mut States)> {
        states.0.resize_with(self.tiers.len(), States::default);
        let tiers = self.tiers.iter().zip(&mut states.0).enumerate();
        tiers.map(|(index, (tier, state))| (index, tier, state))
    }

    /// Calls `ask` with this tier and its state.
    fn with_own<R>(&self, states: &TierStates, ask: impl FnOnce(&Several, &States) -> R) -> R {
        static FRESH: States = States::FRESH;
        static NONE: Several = Several::NONE;
        let tier = self.tiers.get(self.own).unwrap_or(&NONE);
        ask(tier, states.0.get(self.own).unwrap_or(&FRESH))
    }

    /// Charges the own tier at the moment at which the cost fits, and the others `now`: they have
    /// no part in what it waits for.
    fn take(&self, states: &mut TierStates, now: Timestamp, at: Timestamp, cost: Cost) -> Mark {
        let mut mark = Mark::default();
        for (index, tier, state) in self.each_mut(states) {
            if index == self.own {
                mark = tier.charge(state, at, cost);
            } else {
                tier.owe(state, now, cost);
            }
        }
        mark
    }
}

impl Algorithm for Tiered {
    type State = TierStates;

    fn advance(&self, states: &mut TierStates, now: Timestamp, promised: Timestamp) {
        for (_, tier, state) in self.each_mut(states) {
            tier.advance(state, now, promised);
        }
    }

    fn wait(&self, states: &TierStates, now: Timestamp, cost: Cost) -> Option<Duration> {
        self.with_own(states, |tier, state| tier.wait(state, now, cost))
    }

    fn charge(&self, states: &mut TierStates, at: Timestamp, cost: Cost) -> Mark {
        self.take(states, at, at, cost)
    }

    fn reserve(
        &self,
        states: &mut TierStates,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        let wait = self.wait(states, now, cost);
        let Some(at) = self.in_time(now, wait, within) else {
            return (Decision::refused(self.refusing(states, now, cost), wait), None);
        };
        let mark = self.take(states, now, at, cost);
        let charge = Charge { at, cost, mark, moved: false };
        (Decision::admitted(self.usage(states, now)), Some(charge))
    }

    fn owe(&self, states: &mut TierStates, at: Timestamp, cost: Cost) {
        self.each_mut(states).for_each(|(_, tier, state)| tier.owe(state, at, cost));
    }

    /// The other tiers keep it: they were never the ones to give it.
    fn refund(
        &self,
        states: &mut TierStates,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> bool {
        let own = self.each_mut(states).find(|(index, ..)| *index == self.own);
        own.is_some_and(|(_, tier, state)| tier.refund(state, now, charge, permits))
    }

    fn usage(&self, states: &TierStates, now: Timestamp) -> Usage {
        self.with_own(states, |tier, state| tier.usage(state, now))
    }

    fn refusing(&self, states: &TierStates, now: Timestamp, cost: Cost) -> Usage {
        self.with_own(states, |tier, state| tier.refusing(state, now, cost))
    }

    fn longest_delay(&self) -> Duration {
        self.tiers.get(self.own).map_or(Duration::ZERO, Several::longest_delay)
    }

    fn with_origin(&self, origin: Timestamp) -> Self {
        Self { tiers: self.tiers.iter().map(|tier| tier.with_origin(origin)).collect(), ..*self }
    }

    /// A tier that is new has been asked for nothing yet: it owes what the first one owes.
    fn adopt(&self, states: &mut TierStates, from: &Self, now: Timestamp) {
        let first = states.0.first().cloned().unwrap_or_default();
        states.0.resize(from.tiers.len(), States::default());
        states.0.resize(self.tiers.len(), first);
        for (index, tier, state) in self.each_mut(states) {
            if let Some(old) = from.tiers.get(index).or(from.tiers.first()) {
                tier.adopt(state, old, now);
            }
        }
    }

    fn is_fresh(&self, states: &TierStates, now: Timestamp) -> bool {
        self.tiers.iter().zip(&states.0).all(|(tier, state)| tier.is_fresh(state, now))
    }
}
