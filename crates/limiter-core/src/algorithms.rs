//! The algorithms as pure functions, without a clock, a lock or `std`: for programs that keep the states of their
//! keys themselves, such as firmware with one limit, or a simulation.
//!
//! Everybody else uses a limiter. A [`Policy`](crate::Policy) has an [algorithm](crate::Policy::transitions) for each of its
//! limits. Keep a [`State`] for each key and limit, the default one of a new key, and [`operate`] on those of a key:
//!
//! ```
//! use core::time::Duration;
//! use limiter_core::{Cost, Policy, Quota, Timestamp};
//! use limiter_core::algorithms::{State, operate};
//!
//! /// An alarm that rings at most twice a minute, by a timer that counts milliseconds.
//! struct Alarm {
//!     policy: Policy,
//!     states: [State; 1],
//! }
//!
//! impl Alarm {
//!     fn may_ring(&mut self, millis: u64) -> bool {
//!         let now = Timestamp::from_nanos(millis * 1_000_000);
//!         operate(self.policy.transitions(), &mut self.states, now, |states| {
//!             states.take(Cost::ONE, Duration::ZERO).is_admitted()
//!         })
//!     }
//! }
//!
//! let policy = Policy::gcra("alarm", Quota::per_minute(2));
//! let mut alarm = Alarm { policy, states: Default::default() };
//! assert!(alarm.may_ring(0) && alarm.may_ring(1));
//! assert!(!alarm.may_ring(2));
//! assert!(alarm.may_ring(30_000));
//! ```
//!
//! What an operation charges is [`KeyStates::charges`], for a [refund](KeyStates::refund).
//!
//! A state has no form outside of this process: it can't be stored elsewhere. For states in a database of your
//! own, implement [`Limiter`](crate::Limiter) by that database's means, as `limiter-redis` does by scripts.

mod any;
mod entries;
mod gcra;
mod ledger;
mod operations;
mod refunded;
mod windows;

pub use any::{AnyTransition, State};
#[cfg(feature = "std")]
pub(crate) use operations::{Full, LimitState};
pub use operations::{KeyStates, operate};

pub use crate::charge::Charges;

#[doc(hidden)]
pub use {
    crate::charge::Charge,
    entries::Entries,
    gcra::{Gcra, Tat},
    ledger::Ledger,
    windows::{Counts, WindowKind, Windows},
};
