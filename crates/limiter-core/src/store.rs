//! What a store of your own needs: the transitions that every store runs on a key's state.
//!
//! To limit something, use a [`Policy`](crate::Policy) and a limiter. To keep states elsewhere, such as in
//! another database, implement [`Limiter`](crate::Limiter) by these steps, in this order and for one key
//! at a time: read the key's [`State`], or the default if there is none; [`advance`](Transition::advance)
//! it to the store's own time; [`decide`](Transition::decide); and write the state if it was charged.
//!
//! ```
//! use std::{collections::HashMap, sync::Mutex, time::Duration};
//! use limiter_core::{Cost, Decision, Policy, Quota, Timestamp};
//! use limiter_core::store::{State, Transition};
//!
//! struct MapStore {
//!     policy: Policy,
//!     states: Mutex<HashMap<String, State>>,
//! }
//!
//! impl MapStore {
//!     fn check(&self, key: &str, now: Timestamp, cost: Cost) -> Decision {
//!         let rule = self.policy.rule();
//!         let mut states = self.states.lock().unwrap();
//!         let state = states.entry(key.to_owned()).or_default();
//!         rule.advance(state, now);
//!         let (decision, _charge) = rule.decide(state, now, cost, Duration::ZERO);
//!         decision
//!     }
//! }
//!
//! let policy = Policy::gcra("login", Quota::per_minute(1));
//! let store = MapStore { policy, states: Mutex::default() };
//! assert!(store.check("alice", Timestamp::ZERO, Cost::ONE).is_admitted());
//! assert!(!store.check("alice", Timestamp::ZERO, Cost::ONE).is_admitted());
//! ```
//!
//! A [`Rule`] applies any policy. It is one of these transitions:
//!
//! | algorithm | transition | state of a key |
//! |---|---|---|
//! | GCRA, token bucket, leaky bucket as meter or queue | [`Gcra`] | [`Tat`], with its [`Writer`] |
//! | fixed window, aligned window, sliding counter | [`Windows`], of a [`WindowKind`] | [`Counts`] |
//! | sub-windows, exact log | [`Ledger`] | [`Entries`] |
//! | several limits at once | [`AllOf`] | the states of its limits |
//!
//! A refund needs the [`Charge`] that `decide` returned, which a store keeps in the token of a
//! [`Receipt`](crate::Receipt::new).

pub use crate::algorithm::{
    AllOf, Charge, Counts, Entries, Gcra, Ledger, Marks, Refunded, Rule, State, Tat, Transition,
    WindowKind, Windows, Writer,
};
