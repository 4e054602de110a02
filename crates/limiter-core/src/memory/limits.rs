//! Operations on all limits of a policy, which are a list of one ask.

use core::time::Duration;

use super::{
    list::{Ask, List},
    present::Now,
    states::{Outcome, States},
};
use crate::{
    Cost, Decision, LimiterId, Source, Timestamp,
    algorithms::Transition,
    charge::{Charge, Charged},
};

impl States {
    fn ask<'a>(&'a self, key: u64, clock: Now<'a>, cost: Cost) -> [Ask<'a>; 1] {
        // All limits are those of one limiter.
        let (limiter, now) = (LimiterId::of_none(), clock());
        [Ask { limiter, states: self, key, clock, now, cost, charge: Some(cost) }]
    }

    /// Returns the decision on `cost`, with the usage before it, and charges nothing.
    pub(crate) fn preview(&self, key: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let asks = self.ask(key, clock, cost);
        let list = List::read(&asks, None);
        list.decision(0, list.wait(0))
    }

    /// Returns how long a cost has to wait, `None` for ever, and since when.
    pub(crate) fn wait(
        &self,
        key: u64,
        clock: Now<'_>,
        cost: Cost,
    ) -> (Option<Duration>, Timestamp) {
        let asks = self.ask(key, clock, cost);
        let list = List::read(&asks, None);
        (list.wait(0), list.now)
    }

    /// Charges `cost` to all limits, if it fits all now or up to `within` later; or for a waiter, at the moment at which
    /// it was `due`.
    pub(super) fn take_of_each(
        &self,
        key: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let asks = self.ask(key, clock, cost);
        let mut list = List::read(&asks, due);
        let wait = list.wait(0);
        let horizon = self.limits.iter().map(|limit| limit.transition.horizon()).min();
        let longest = within.min(horizon.unwrap_or_default());
        let delay = wait.filter(|wait| wait.is_zero() || *wait <= longest);
        let decision = match delay.map(|delay| list.now.saturating_add(delay)) {
            Some(at) => match list.charge(at) {
                Ok(()) => return (list.decision(0, Some(Duration::ZERO)), list.charged(0, at)),
                Err((_, refusal)) => refusal,
            },
            None => list.decision(0, wait),
        };
        if decision.source() == Source::FullTable {
            self.count_full();
        }
        (decision, None)
    }

    /// Charges as many permits as fit all limits, at most `most`.
    pub(super) fn take_up_to_of_each(&self, key: u64, clock: Now<'_>, most: Cost) -> Outcome {
        const MOST_TRIES: usize = 8;
        // Again if another thread has taken some meanwhile, until not one fits.
        for _ in 0..MOST_TRIES {
            let fitting = most.get().min(self.usage(key, clock).remaining());
            let Ok(cost) = Cost::new(fitting) else { break };
            let outcome = self.take_of_each(key, clock, None, cost, Duration::ZERO);
            if outcome.0.is_admitted() || outcome.0.source() == Source::FullTable {
                return outcome;
            }
        }
        self.take_of_each(key, clock, None, Cost::ONE, Duration::ZERO)
    }

    /// Charges `cost` to each limit in any case, up to its own bound. The charge has the fewest permits that one of them
    /// was charged.
    pub(super) fn charge_each(&self, key: u64, clock: Now<'_>, cost: Cost) -> Outcome {
        let asks = self.ask(key, clock, Cost::ONE);
        let mut list = List::read(&asks, None);
        if list.parts.iter().any(|part| !part.has_state) {
            self.count_full();
            return (list.decision(0, list.wait(0)), None);
        }
        let mut fewest = cost.get();
        for part in &mut list.parts {
            let charged = part.ask.change(part.limit, None, |state, now| {
                (part.limit.transition.force_charge(state, now, cost), self.epoch())
            });
            if let Some(((decision, charge), epoch)) = charged {
                (part.usage, part.epoch) = (decision.usage(), epoch);
                part.mark = charge.map(|charge| charge.mark);
                fewest = fewest.min(charge.map_or(0, |charge| charge.cost.get()));
            }
        }
        let charged = list.charged(0, list.now).zip(Cost::new(fewest).ok());
        let charged = charged.map(|(charged, cost)| Charged {
            charge: Charge { cost, ..charged.charge },
            ..charged
        });
        (list.decision(0, Some(Duration::ZERO)), charged)
    }

    /// Gives back up to `permits` of a charge to each limit, and returns the most that came back to one. Before its
    /// moment, a charge comes back whole to all limits, or not at all.
    pub(super) fn refund_each(
        &self,
        key: u64,
        clock: Now<'_>,
        charged: &Charged,
        permits: u64,
    ) -> u64 {
        let [ask] = self.ask(key, clock, charged.charge.cost);
        let charges = || self.limits.iter().zip(charged.of_each_limit());
        let mut is_whole = true;
        for (limit, charge) in charges() {
            let counts = ask.change(limit, None, |state, now| {
                let back = limit.transition.refundable(state, now, &charge, permits);
                now >= charge.made && (now >= charge.at || back.is_whole)
            });
            is_whole &= counts.unwrap_or(false);
        }
        // Whether the epoch is over shows when the states have been advanced.
        if !is_whole || self.epoch() != charged.epoch {
            return 0;
        }
        let back = charges().map(|(limit, charge)| {
            let back = ask.change(limit, None, |state, now| {
                let back = limit.transition.refundable(state, now, &charge, permits).permits;
                limit.transition.give_back(state, now, &charge, permits);
                back
            });
            back.unwrap_or(0)
        });
        back.max().unwrap_or(0)
    }
}
