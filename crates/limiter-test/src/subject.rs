//! A limiter under test, on a clock that the test sets.

mod bare;
mod crowded;
mod in_store;
mod memory;

use std::time::Duration;

pub use bare::Bare;
pub use crowded::{Crowd, crowded};
pub use in_store::{EPOCH, InStore, Process};
use limiter_core::{Cost, Decision, Policy, Receipt, Reservation, Timestamp, Usage};
pub use memory::{InMemory, Local};

/// A limiter whose clock the test sets.
pub trait Subject {
    /// Returns the smallest step of the limiter's clock, and the unit of its waits.
    fn tick(&self) -> Duration;

    /// Returns the policy that the handle in use reports.
    fn policy(&self) -> Policy;

    /// Makes all calls from now on use the handle for `policy`, on the same states.
    fn switch(&mut self, policy: &Policy);

    /// Sets the clock to `now`, a whole number of ticks, and charges `cost` to `key` if it fits.
    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision;

    /// Switches to `policy`, and decides.
    fn decide_by(&mut self, now: Timestamp, policy: &Policy, key: &str, cost: Cost) -> Decision {
        self.switch(policy);
        self.decide(now, key, cost)
    }

    /// Sets the clock to `now`, and returns how far the permits of `key` are used up.
    fn peek(&mut self, now: Timestamp, key: &str) -> Usage;

    /// Sets the clock to `now`, and charges `cost` to `key` if it fits `within` some time.
    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation;

    /// Sets the clock to `now`, and charges as many permits to `key` as fit, at most `most`.
    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation;

    /// Sets the clock to `now`, and charges `cost` to `key` whether or not it fits.
    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation;

    /// Sets the clock to `now`, and returns how many permits of `receipt` were returned.
    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64;

    /// Sets the clock to `now`, and makes `key` fresh.
    fn reset(&mut self, now: Timestamp, key: &str);
}
