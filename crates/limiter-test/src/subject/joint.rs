//! Several limits of one policy over the states of one key, by the definition: a cost is charged to all of them, or to
//! none.

use std::time::Duration;

use limiter_core::{
    Cost, Decision, Policy, Timestamp, Usage,
    algorithms::{AnyTransition, Charge, State, Transition},
};

/// The limits of a policy.
#[derive(Clone, Debug)]
pub struct Joint(Policy);

/// What was charged to each limit.
#[derive(Clone, Debug)]
pub struct JointCharge {
    charge: Charge,
    marks: Vec<u64>,
}

impl JointCharge {
    /// Returns when the permits may be used.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.charge.at
    }

    /// Returns how many permits were charged.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.charge.cost.get()
    }

    fn of_each(&self) -> impl Iterator<Item = Charge> {
        self.marks.iter().map(|mark| Charge { mark: *mark, ..self.charge })
    }
}

type States = [State];

impl Joint {
    /// Returns the limits of a policy.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        Self(policy)
    }

    /// Returns the states of a new key.
    #[must_use]
    pub fn fresh(&self) -> Vec<State> {
        vec![State::Fresh; self.0.limits().len()]
    }

    fn each<'a>(
        &'a self,
        states: &'a States,
    ) -> impl Iterator<Item = (&'a AnyTransition, &'a State)> {
        self.0.transitions().iter().zip(states)
    }

    fn each_mut<'a>(
        &'a self,
        states: &'a mut States,
    ) -> impl Iterator<Item = (&'a AnyTransition, &'a mut State)> {
        self.0.transitions().iter().zip(states)
    }

    /// Returns whether all states are possible.
    #[must_use]
    pub fn are_possible(&self, states: &States, now: Timestamp) -> bool {
        self.each(states).all(|(limit, state)| limit.is_possible(state, now))
    }

    /// Brings the states to a moment, and returns whether one was impossible.
    pub fn advance(&self, states: &mut States, now: Timestamp) -> bool {
        let advanced = self.each_mut(states).map(|(limit, state)| limit.advance(state, now));
        advanced.fold(false, |one, other| one | other)
    }

    /// Returns how long a cost waits, `None` for ever.
    #[must_use]
    pub fn wait(&self, states: &States, now: Timestamp, cost: Cost) -> Option<Duration> {
        let longest = |at| {
            let waits = self.each(states).map(|(limit, state)| limit.wait(state, at, cost));
            waits.reduce(|one, other| Some(one?.max(other?))).flatten()
        };
        let first = longest(now)?;
        // The slots of a paced limit may miss it. There is at most one such limit.
        let more = if self.0.limits().len() > 1 {
            longest(now.saturating_add(first))?
        } else {
            Duration::ZERO
        };
        Some(first.saturating_add(more))
    }

    /// Charges a cost for a moment.
    pub fn charge(
        &self,
        states: &mut States,
        now: Timestamp,
        at: Timestamp,
        cost: Cost,
    ) -> JointCharge {
        let charged = self.each_mut(states);
        let marks = charged.map(|(limit, state)| limit.charge(state, now, at, cost));
        let marks = marks.collect();
        JointCharge { charge: Charge { made: now, at, cost, mark: 0 }, marks }
    }

    fn usages<'a>(
        &'a self,
        states: &'a States,
        now: Timestamp,
    ) -> impl Iterator<Item = Usage> + 'a {
        let usages = self.each(states).map(move |(limit, state)| limit.usage(state, now));
        usages.enumerate().map(|(index, usage)| usage.with_limit_index(index))
    }

    /// Returns the usage of the limit with the fewest permits left.
    #[must_use]
    pub fn usage(&self, states: &States, now: Timestamp) -> Usage {
        Usage::fewest_remaining(self.usages(states, now))
    }

    /// Decides on a cost at `now` or up to `within` later.
    pub fn decide(
        &self,
        states: &mut States,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<JointCharge>) {
        let horizons = self.0.transitions().iter().map(Transition::horizon);
        let within = within.min(horizons.min().unwrap_or_default());
        let wait = self.wait(states, now, cost);
        if let Some(delay) = wait.filter(|wait| *wait <= within) {
            let charge = self.charge(states, now, now.saturating_add(delay), cost);
            return (Decision::admitted(self.usage(states, now)), Some(charge));
        }
        let waits = self.each(states).map(|(limit, state)| limit.wait(state, now, cost));
        let usage = Usage::longest_wait(waits.zip(self.usages(states, now)));
        (Decision::refused(usage, wait), None)
    }

    /// Charges as many permits as fit, at most `most`.
    pub fn decide_up_to(
        &self,
        states: &mut States,
        now: Timestamp,
        most: Cost,
    ) -> (Decision, Option<JointCharge>) {
        let fitting = most.get().min(self.usage(states, now).remaining());
        self.decide(states, now, Cost::new(fitting).unwrap_or(Cost::ONE), Duration::ZERO)
    }

    /// Charges each limit up to its own bound. The charge has the fewest permits of one of them.
    pub fn force_charge(
        &self,
        states: &mut States,
        now: Timestamp,
        cost: Cost,
    ) -> (Decision, Option<JointCharge>) {
        let charged = self.each_mut(states);
        let charges: Vec<_> =
            charged.map(|(limit, state)| limit.force_charge(state, now, cost).1).collect();
        let permits = charges.iter().map(|it| it.map_or(0, |charge| charge.cost.get()));
        let charge = permits.min().and_then(|fewest| Cost::new(fewest).ok()).map(|cost| {
            let marks = charges.iter().flatten().map(|charge| charge.mark).collect();
            JointCharge { charge: Charge { made: now, at: now, cost, mark: 0 }, marks }
        });
        (Decision::admitted(self.usage(states, now)), charge)
    }

    /// Gives back up to `permits` of a charge, and returns the most that came back to one limit.
    pub fn refund(
        &self,
        states: &mut States,
        now: Timestamp,
        charge: &JointCharge,
        permits: u64,
    ) -> u64 {
        let whole = self.each(states).zip(charge.of_each()).all(|((limit, state), charge)| {
            now >= charge.at || limit.refundable(state, now, &charge, permits).is_whole
        });
        if now < charge.charge.made || !whole {
            return 0;
        }
        let back = self.each_mut(states).zip(charge.of_each()).map(|((limit, state), charge)| {
            let back = limit.refundable(state, now, &charge, permits).permits;
            limit.give_back(state, now, &charge, permits);
            back
        });
        back.max().unwrap_or(0)
    }
}
