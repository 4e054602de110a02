//! A policy's transitions with the plainest store.

use std::{collections::HashMap, mem, time::Duration};

use limiter_core::{
    Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage,
    algorithms::{Charges, KeyStates, State, operate},
};

use super::Subject;

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
    charges: Charges,
}

impl Bare {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, states: HashMap::new() }
    }

    /// Runs an operation on the states of `key`. They are written if `is_written` by its result, or if one was impossible.
    fn operate<R>(
        &mut self,
        now: Timestamp,
        key: &str,
        operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
        is_written: impl FnOnce(&R) -> bool,
    ) -> R {
        let limits = self.policy.transitions();
        let entries = self.policy.identities().iter().map(|it| (it.clone(), key.to_owned()));
        let entries: Vec<_> = entries.collect();
        let of = |entry| self.states.get(entry).cloned().unwrap_or_default();
        let mut states: Vec<State> = entries.iter().map(of).collect();
        let are_possible = |states: &[State]| {
            limits.iter().zip(states).all(|(limit, state)| limit.is_possible(state, now))
        };
        let were_possible = are_possible(&states);
        let result = operate(limits, &mut states, now, operation);
        if is_written(&result) || !were_possible {
            assert!(are_possible(&states), "{states:?} at {now:?}");
            self.states.extend(entries.into_iter().zip(states));
        }
        result
    }

    /// Charges the states of `key`.
    fn change(
        &mut self,
        now: Timestamp,
        key: &str,
        operation: impl FnOnce(&mut KeyStates<'_, '_>) -> Decision,
    ) -> Reservation {
        let operate = |states: &mut KeyStates<'_, '_>| (operation(states), states.charges());
        let (decision, charges) = self.operate(now, key, operate, |(it, _)| it.is_admitted());
        match charges {
            Some(charges) => {
                let (permits, delay) = (charges.permits(), charges.at().saturating_since(now));
                let token = Token { policy: self.policy.clone(), key: key.to_owned(), charges };
                Reservation::admitted(decision, delay, Receipt::new(token, permits))
            }
            None if decision.is_admitted() => Reservation::uncounted(decision, 0),
            None => Reservation::refused(decision),
        }
    }
}

impl Subject for Bare {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn switch(&mut self, policy: &Policy) {
        self.policy.check_families(policy).expect("the policies have the same families");
        self.policy = policy.clone();
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.reserve(now, key, cost, Duration::ZERO).decision()
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.operate(now, key, |states| states.usage(), |_| false)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.change(now, key, |states| states.take(cost, within))
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.change(now, key, |states| states.take_up_to(most))
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.change(now, key, |states| states.charge(cost))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        let Some(Token { policy, key, charges }) = receipt.token() else {
            return 0;
        };
        // By the policy that has charged.
        let own = mem::replace(&mut self.policy, policy.clone());
        let refund = |states: &mut KeyStates<'_, '_>| states.refund(charges, receipt.permits());
        let back = self.operate(now, key, refund, |back| *back > 0);
        self.policy = own;
        back
    }

    fn reset(&mut self, _: Timestamp, key: &str) {
        self.states.retain(|(_, other), _| other != key);
    }
}
