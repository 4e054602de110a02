//! A limiter whose table is too small for its keys.

use std::time::Duration;

use limiter_core::{Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage};

use super::{InMemory, Operations, Subject};

/// A limiter in memory whose table other keys have filled, so that a key may find no slot.
#[derive(Debug)]
pub struct Crowded {
    limiter: InMemory,
    /// By which the other keys are charged, in turn.
    policies: Vec<Policy>,
    policy: Policy,
    others: usize,
    /// How often the others have asked, and may ask.
    rounds: usize,
    most_rounds: usize,
}

impl Crowded {
    /// Returns a limiter under the first of these policies. Before each of the first `rounds` requests,
    /// `others` other keys are charged by the policies in turn.
    ///
    /// # Panics
    ///
    /// If there are no policies.
    #[must_use]
    pub fn new(limiter: InMemory, policies: Vec<Policy>, others: usize, rounds: usize) -> Self {
        let policy = policies.first().expect("there is a policy").clone();
        Self { limiter, policies, policy, others, rounds: 0, most_rounds: rounds }
    }

    fn crowd(&mut self, now: Timestamp) {
        if self.rounds == self.most_rounds {
            return;
        }
        self.rounds += 1;
        let turns = self.policies.iter().cycle().skip(self.rounds % 3).take(self.others);
        for (key, policy) in turns.enumerate() {
            let burst = policy.limits().iter().map(|limit| limit.quota().burst()).min();
            let cost = if key % 2 == 0 { 1 } else { burst.unwrap_or(1) };
            let _ = self.limiter.decide_by(now, policy, &format!("other {key}"), Cost::of(cost));
        }
        self.limiter.switch(&self.policy);
    }
}

impl Subject for Crowded {
    fn tick(&self) -> Duration {
        self.limiter.tick()
    }

    fn switch(&mut self, policy: &Policy) {
        self.policy = policy.clone();
        self.limiter.switch(policy);
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.crowd(now);
        self.limiter.decide(now, key, cost)
    }
}

impl Operations for Crowded {
    fn policy(&self) -> Policy {
        self.limiter.policy()
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.crowd(now);
        self.limiter.peek(now, key)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.crowd(now);
        self.limiter.reserve(now, key, cost, within)
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.crowd(now);
        self.limiter.take_up_to(now, key, most)
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.crowd(now);
        self.limiter.charge(now, key, cost)
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        self.limiter.refund(now, receipt)
    }

    fn reset(&mut self, now: Timestamp, key: &str) {
        self.limiter.reset(now, key);
    }
}
