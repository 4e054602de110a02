//! A policy's transition with the plainest store.

use std::{collections::HashMap, time::Duration};

use limiter_core::{
    Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage,
    algorithms::{AnyTransition, Charge, State, Transition},
};

use super::{Operations, Subject};

/// A policy's transition with the plainest store: a map that never forgets.
///
/// As in every store, a refusal and a peek write a state only if they replace an impossible one.
#[derive(Debug)]
pub struct Bare {
    policy: Policy,
    states: HashMap<String, State>,
}

/// What a refund has to know.
struct Token {
    key: String,
    rule: AnyTransition,
    charge: Charge,
}

impl Bare {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, states: HashMap::new() }
    }

    /// Returns the state of `key`.
    #[must_use]
    pub fn state(&self, key: &str) -> State {
        self.states.get(key).cloned().unwrap_or_default()
    }

    /// Returns the state of `key` at `now`, and writes it if it replaces an impossible one.
    fn advanced(&mut self, rule: &AnyTransition, now: Timestamp, key: &str) -> State {
        let mut state = self.state(key);
        if rule.advance(&mut state, now) {
            self.write(key, state.clone());
        }
        state
    }

    /// Changes the state of `key`, and writes it if it was charged.
    fn change(
        &mut self,
        now: Timestamp,
        key: &str,
        change: impl Fn(&AnyTransition, &mut State) -> (Decision, Option<Charge>),
    ) -> Reservation {
        let policy = self.policy.clone();
        let rule = policy.transition();
        let before = self.advanced(rule, now, key);
        let mut state = before.clone();
        let (decision, charge) = change(rule, &mut state);
        if decision.is_admitted() && state != before {
            assert!(rule.is_possible(&state, now), "{state:?} at {now:?}");
            self.write(key, state);
        }
        match charge {
            Some(charge) => {
                let token = Token { key: key.to_owned(), rule: rule.clone(), charge };
                let receipt = Receipt::new(token, charge.cost.get());
                Reservation::admitted(decision, charge.at.saturating_since(now), receipt)
            }
            None if decision.is_admitted() => Reservation::uncounted(decision, 0),
            None => Reservation::refused(decision),
        }
    }

    fn write(&mut self, key: &str, state: State) {
        self.states.insert(key.to_owned(), state);
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
        let policy = self.policy.clone();
        let state = self.advanced(policy.transition(), now, key);
        policy.transition().usage(&state, now)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.change(now, key, |rule, state| rule.decide(state, now, cost, within))
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.change(now, key, |rule, state| rule.decide_up_to(state, now, most))
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.change(now, key, |rule, state| rule.force_charge(state, now, cost))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        let Some(Token { key, rule, charge }) = receipt.token() else {
            return 0;
        };
        let mut state = self.advanced(rule, now, key);
        let back = rule.refund(&mut state, now, charge, receipt.permits());
        if back > 0 {
            self.write(key, state);
        }
        back
    }

    fn reset(&mut self, _: Timestamp, key: &str) {
        self.states.remove(key);
    }
}
