//! The interface of the algorithms.

use core::{fmt, time::Duration};

use crate::{Cost, Timestamp, Usage, charge::Charge};

/// One algorithm under one quota: a pure transition from a key's state at a moment to a decision.
///
/// A transition reads no clock, takes no lock and awaits nothing, so any store can run it. A store
/// keeps one state a key and serialises the transitions of that key. Each begins with
/// [`advance`](Self::advance), then decides, then charges. A state is the algorithm's own numbers and names no quota:
/// quotas of one [span](crate::Policy::identities) share it.
pub trait Transition {
    /// What is stored of a key. Its default is the fresh state, which an absent key has.
    type State: Clone + fmt::Debug + Default;

    /// Returns whether some quota of this span can have left `state` by `now`. An impossible state was left
    /// before the clock stepped back, or is corrupt.
    fn is_possible(&self, state: &Self::State, now: Timestamp) -> bool;

    /// Brings `state` to `now`: replaces an impossible state by a full debt, and may drop what has
    /// expired. A possible debt is never lowered. Returns whether the state was impossible.
    fn advance(&self, state: &mut Self::State, now: Timestamp) -> bool;

    /// Returns the time from `now` until `cost` fits, zero if it fits now, `None` if it never will.
    /// `now` may be later than the moment of the last `advance`.
    fn wait(&self, state: &Self::State, now: Timestamp, cost: Cost) -> Option<Duration>;

    /// Charges `cost` for the moment `at`, which is `now` or later, and at which it fits; or for `now` up to
    /// [`most_chargeable`](Self::most_chargeable). Returns the mark by which a refund finds the charge.
    fn charge(&self, state: &mut Self::State, now: Timestamp, at: Timestamp, cost: Cost) -> u64;

    /// Returns how many permits can be charged at most for `now` in any case: no fewer than fit.
    ///
    /// By GCRA, until the debt is that of a burst and the horizon. By other algorithms, any number until more
    /// than the limit counts, and then none: if it were none as soon as the limit is reached, a request that
    /// takes the last permit of a log and is charged afterwards would be charged nothing, each time.
    fn most_chargeable(&self, state: &Self::State, now: Timestamp) -> u64;

    /// Returns what [`give_back`](Self::give_back) would give back.
    fn refundable(
        &self,
        state: &Self::State,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded;

    /// Gives back up to `permits` of a charge by this quota, as far as they still count.
    fn give_back(&self, state: &mut Self::State, now: Timestamp, charge: &Charge, permits: u64);

    /// Returns how far the permits are used up at `now`.
    fn usage(&self, state: &Self::State, now: Timestamp) -> Usage;

    /// Returns how far ahead permits may be promised.
    fn horizon(&self) -> Duration;

    /// Returns the longest for which a possible state is not fresh, under any quota of this span.
    fn reach(&self) -> Duration;

    /// Returns the time until `state` equals a fresh one.
    fn fresh_after(&self, state: &Self::State, now: Timestamp) -> Duration;
}

/// What came back of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refunded {
    /// How many permits, rounded up.
    pub permits: u64,
    /// Whether the key is as if the charge had never been made.
    pub is_whole: bool,
}

impl Refunded {
    /// Returns what came back of a charge, in whole permits.
    pub(super) const fn of(charge: &Charge, permits: u64) -> Self {
        Self { permits, is_whole: permits == charge.cost.get() }
    }
}

/// Returns the most permits that may be charged for now where `counted` of a limit's permits count, and a
/// state has the count `count`: any number until the limit is overshot, and then none.
///
/// A count grows only so far that it stays below the largest one that scripts accept.
pub(super) fn most_chargeable(limit: u64, counted: u64, count: u64) -> u64 {
    const MOST_COUNTED: u64 = 100_000_000_000_000;
    match limit.checked_sub(counted) {
        Some(room) => room.max(MOST_COUNTED.saturating_sub(count)),
        None => 0,
    }
}
