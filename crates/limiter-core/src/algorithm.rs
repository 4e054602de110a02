//! Algorithms: each is one pure transition from a key's state at a moment to a decision.
//!
//! To limit something, take a [`Policy`](crate::Policy) and a limiter; this module is for those who
//! write a store.

mod gcra;
mod meter;

pub use gcra::{Gcra, Tat};
pub use meter::{Meter, Resolution};

use crate::{Cost, Decision, Timestamp};

/// A rate-limiting algorithm: a pure transition from a key's state at a moment to a decision.
///
/// An algorithm reads no clock, takes no lock, allocates nothing and awaits nothing, so that any
/// store can run it. A store keeps one state a key and serialises the transitions of that key.
///
/// ```
/// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Gcra, Tat}};
///
/// let gcra = Gcra::new(&Quota::per_second(1)?)?;
/// let mut state = Tat::default();
/// assert!(gcra.decide(&mut state, Timestamp::ZERO, Cost::ONE).is_admitted());
/// assert!(!gcra.decide(&mut state, Timestamp::ZERO, Cost::ONE).is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
pub trait Algorithm {
    /// What is remembered of a key. Its default is the fresh state, which an absent key has.
    type State: Clone + Default + PartialEq;

    /// Decides on `cost` permits at `now`, and charges them to `state` if they are admitted.
    ///
    /// A refusal leaves `state` as it was, or as [`clamp`](Self::clamp) does. A store therefore
    /// writes whenever the state differs, not whenever the decision admits.
    fn decide(&self, state: &mut Self::State, now: Timestamp, cost: Cost) -> Decision;

    /// Lowers a state that the policy can't have produced by `now`, such as one from before the
    /// clock stepped back, to the most that the policy allows.
    fn clamp(&self, state: &mut Self::State, now: Timestamp);

    /// Returns whether `state` equals a fresh one at `now`, so that it may be forgotten.
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool;
}
