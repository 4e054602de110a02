//! A policy's transitions with the plainest store.

use std::{collections::HashMap, mem, time::Duration};

use limiter_core::{
    Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage, algorithms::State,
};

use super::{Joint, JointCharge, Operations, Subject};

/// A policy's transitions with the plainest store: a map that never forgets.
///
/// As in every store, a refusal and a peek write a state only if they replace an impossible one.
#[derive(Debug)]
pub struct Bare {
    policy: Policy,
    /// By the identity of the limit, and the key.
    states: HashMap<(String, String), State>,
}

/// What a refund has to know.
struct Token {
    policy: Policy,
    key: String,
    charge: JointCharge,
}

impl Bare {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, states: HashMap::new() }
    }

    fn joint(&self) -> Joint {
        Joint::new(self.policy.clone())
    }

    /// Returns the states of `key`.
    fn states(&self, key: &str) -> Vec<State> {
        let state = |identity: &String| {
            self.states.get(&(identity.clone(), key.to_owned())).cloned().unwrap_or_default()
        };
        self.policy.identities().iter().map(state).collect()
    }

    /// Returns the states of `key` at `now`, and writes them if they replace impossible ones.
    fn advanced(&mut self, now: Timestamp, key: &str) -> Vec<State> {
        let mut states = self.states(key);
        if self.joint().advance(&mut states, now) {
            self.write(key, states.clone());
        }
        states
    }

    /// Changes the states of `key`, and writes them if they were charged.
    fn change(
        &mut self,
        now: Timestamp,
        key: &str,
        change: impl Fn(&Joint, &mut [State]) -> (Decision, Option<JointCharge>),
    ) -> Reservation {
        let joint = self.joint();
        let before = self.advanced(now, key);
        let mut states = before.clone();
        let (decision, charge) = change(&joint, &mut states);
        if decision.is_admitted() && states != before {
            assert!(joint.are_possible(&states, now), "{states:?} at {now:?}");
            self.write(key, states);
        }
        match charge {
            Some(charge) => {
                let (permits, delay) = (charge.permits(), charge.at().saturating_since(now));
                let token = Token { policy: self.policy.clone(), key: key.to_owned(), charge };
                Reservation::admitted(decision, delay, Receipt::new(token, permits))
            }
            None if decision.is_admitted() => Reservation::uncounted(decision, 0),
            None => Reservation::refused(decision),
        }
    }

    fn write(&mut self, key: &str, states: Vec<State>) {
        for (identity, state) in self.policy.identities().iter().zip(states) {
            self.states.insert((identity.clone(), key.to_owned()), state);
        }
    }
}

impl Subject for Bare {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn switch(&mut self, policy: &Policy) {
        self.policy.check_families(policy).expect("the policies have the same families");
        self.policy = policy.clone();
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.reserve(now, key, cost, Duration::ZERO).decision()
    }
}

impl Operations for Bare {
    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        let states = self.advanced(now, key);
        self.joint().usage(&states, now)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.change(now, key, |joint, states| joint.decide(states, now, cost, within))
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.change(now, key, |joint, states| joint.decide_up_to(states, now, most))
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.change(now, key, |joint, states| joint.force_charge(states, now, cost))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        let Some(Token { policy, key, charge }) = receipt.token() else {
            return 0;
        };
        // By the policy that has charged.
        let own = mem::replace(&mut self.policy, policy.clone());
        let mut states = self.advanced(now, key);
        let back = self.joint().refund(&mut states, now, charge, receipt.permits());
        if back > 0 {
            self.write(key, states);
        }
        self.policy = own;
        back
    }

    fn reset(&mut self, _: Timestamp, key: &str) {
        self.states.retain(|(_, other), _| other != key);
    }
}
