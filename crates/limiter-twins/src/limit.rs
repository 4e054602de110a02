//! One limit of a demand: its arguments, and the operations of a script on its state.

use crate::keyspace::{Keyspace, WrongType};

/// The arguments of a limit after its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// The quota as states have it.
    pub(crate) quota: &'a str,
    /// The permits, by GCRA the burst.
    pub(crate) permits: u64,
    /// The increment in ticks, the length of a window, or into how many slots a paced window spreads its permits.
    pub(crate) number: i64,
}

impl Terms<'_> {
    /// Returns the numbers of the quota.
    pub(crate) fn numbers<const N: usize>(&self) -> Option<[i64; N]> {
        crate::text::numbers(self.quota.trim()).and_then(|numbers| numbers.try_into().ok())
    }
}

/// What is given back of a charge. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) permits: u64,
    pub(crate) cost: u64,
    /// When it was made.
    pub(crate) made: i64,
    /// The moment that it was made for.
    pub(crate) at: i64,
    /// How long its own lease lasts.
    pub(crate) length: i64,
    /// What the charge left in the state, from `made` on.
    pub(crate) mark: i64,
    /// When the last lease of the key ends.
    pub(crate) leases_end: i64,
}

/// A limit, and the state of a key that was read last. Times are in microseconds, and marks count from the present.
pub(crate) trait Limit {
    /// The command that reads the state.
    fn command(&self) -> &'static str;

    /// Reads the state of a key. An impossible one, or one that can't be read, is a full debt.
    fn read(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> Result<(), WrongType>;

    /// Returns whether the state that was read was impossible.
    fn is_damaged(&self) -> bool;

    /// Returns whether permits may be promised for later.
    fn promises(&self) -> bool;

    /// Returns when a cost fits, from a moment on, `None` for never.
    fn fits(&self, cost: u64, from: i64) -> Option<i64>;

    /// Returns the most permits that can be charged now in any case.
    fn most_chargeable(&self) -> u64;

    /// Charges a cost for a moment at which it fits, or now up to the most that can be charged, and returns the
    /// mark.
    fn charge(&mut self, cost: u64, at: i64) -> i64;

    /// Returns how many permits came back, and whether all of the charge did.
    fn refund(&mut self, charge: &Charge) -> (u64, bool);

    /// Returns the time until the limit is fresh, and the permits that are left.
    fn usage(&self) -> [i64; 2];

    /// Writes the state after a charge or a repair, with an expiry.
    fn store(&self, space: &mut Keyspace, key: &[u8]);

    /// Writes the state after a refund.
    fn store_refunded(&self, space: &mut Keyspace, key: &[u8]) {
        self.store(space, key);
    }
}
