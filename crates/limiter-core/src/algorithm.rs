//! Algorithms: each is one pure transition from a key's state at a moment to a decision.
//!
//! To limit something, take a [`Policy`](crate::Policy) and a limiter; this module is for those who
//! write a store, and says how each algorithm works and what it costs.
//!
//! | policy | arithmetic | state of a key |
//! |---|---|---|
//! | GCRA, token bucket, leaky bucket as meter or queue | [`Gcra`] over [`Meter`] | [`Tat`], 8 bytes |
//! | fixed window, from the first use or by the clock | [`FixedWindow`] | [`Window`], 8 bytes |
//! | sliding counter | [`SlidingCounter`] | [`Counts`], 24 bytes |
//! | sub-windows, exact log | [`Ledger`] | [`Entries`], 48 bytes and 16 an entry |
//! | several limits at once | [`Several`] | those of all its limits |
//! | with tiers | [`Tiered`] | those of all its tiers |

mod fixed_window;
mod gcra;
mod leaky_bucket;
mod ledger;
mod meter;
mod several;
mod single;
mod sliding_counter;
mod sliding_log;
mod sub_windows;
mod tiered;
mod token_bucket;

use core::{fmt::Debug, time::Duration};

pub use fixed_window::{FixedWindow, Start, Window};
pub use gcra::{Gcra, Tat};
pub use ledger::{Entries, Ledger};
pub use meter::{Meter, Resolution};
pub use several::{Several, States};
pub use single::{Single, State};
pub use sliding_counter::{Counts, SlidingCounter};
pub use sub_windows::Slots;
pub use tiered::{TierStates, Tiered};

use crate::{Cost, Decision, Timestamp, Usage};

/// A rate-limiting algorithm: a pure transition from a key's state at a moment to a decision.
///
/// An algorithm reads no clock, takes no lock and awaits nothing, so that any store can run it. A
/// store keeps one state a key and serialises the transitions of that key. Each begins with
/// [`advance`](Self::advance), then decides, then commits:
///
/// ```
/// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Gcra, Tat}};
///
/// let gcra = Gcra::new(&Quota::per_second(1)?)?;
/// let (mut state, now) = (Tat::default(), Timestamp::ZERO);
/// gcra.advance(&mut state, now, now);
/// assert!(gcra.decide(&mut state, now, Cost::ONE).is_admitted());
/// assert!(!gcra.decide(&mut state, now, Cost::ONE).is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
pub trait Algorithm: Clone + Debug + PartialEq {
    /// What is remembered of a key. Its default is the fresh state, which an absent key has.
    type State: Clone + Debug + Default;

    /// Brings `state` to `now`: forgets what has expired, and lowers what the policy can't have
    /// left, such as a state from before the clock stepped back, to the most that it can have.
    ///
    /// `promised` is the latest moment for which the store has given out permits: `now`, or the
    /// end of the longest delay that [`reserve`](Self::reserve) has told.
    fn advance(&self, state: &mut Self::State, now: Timestamp, promised: Timestamp);

    /// Returns how long it takes from `now` until `cost` fits, zero if it fits now, and `None` if
    /// it never will. `now` may be later than the moment to which the state was brought.
    fn wait(&self, state: &Self::State, now: Timestamp, cost: Cost) -> Option<Duration>;

    /// Charges `cost` to `state` at the moment `at` at which it fits, now or later.
    fn charge(&self, state: &mut Self::State, at: Timestamp, cost: Cost) -> Mark;

    /// Charges `cost` whether or not it fits, as far as this quota can be owed: what another tier
    /// has admitted.
    fn owe(&self, state: &mut Self::State, at: Timestamp, cost: Cost);

    /// Takes back `permits` of what was charged, as far as they have not recovered by `now`.
    ///
    /// Returns whether that has moved what was charged later away from its marks: a store then sets
    /// [`Charge::moved`] before it gives that back.
    fn refund(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> bool;

    /// Returns how far the permits are used up at `now`.
    fn usage(&self, state: &Self::State, now: Timestamp) -> Usage;

    /// Returns the usage of the limit that makes `cost` wait.
    fn refusing(&self, state: &Self::State, now: Timestamp, _cost: Cost) -> Usage {
        self.usage(state, now)
    }

    /// Returns the longest delay for which permits may be reserved.
    fn longest_delay(&self) -> Duration {
        Duration::MAX
    }

    /// Returns the algorithm for timestamps that count from `origin` on the clock: all the same to
    /// those that don't look at what the clock shows.
    #[must_use]
    fn with_origin(&self, _origin: Timestamp) -> Self {
        self.clone()
    }

    /// Rewrites a state that `from` has left, for an algorithm of the same kind with another quota:
    /// the permits that were taken stay taken, as far as this quota remembers any.
    fn adopt(&self, state: &mut Self::State, from: &Self, now: Timestamp);

    /// Returns whether `state` equals a fresh one at `now`, so that it may be forgotten.
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        self.usage(state, now).reset_after().is_zero()
    }

    /// Decides on `cost` permits at `now`, and charges them if they are admitted.
    #[inline]
    fn decide(&self, state: &mut Self::State, now: Timestamp, cost: Cost) -> Decision {
        self.reserve(state, now, cost, Duration::ZERO).0
    }

    /// Decides on `cost` permits at `now` or `within` some time, and charges them at the moment at
    /// which they fit. The charge tells that moment; what comes later waits behind it.
    #[inline]
    fn reserve(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> (Decision, Option<Charge>) {
        let wait = self.wait(state, now, cost);
        let Some(at) = self.in_time(now, wait, within) else {
            return (Decision::refused(self.refusing(state, now, cost), wait), None);
        };
        let mark = self.charge(state, at, cost);
        let charge = Charge { at, cost, mark, moved: false };
        (Decision::admitted(self.usage(state, now)), Some(charge))
    }

    /// Returns the moment after `wait`, if that is `within` the time and the algorithm's longest
    /// delay.
    #[inline]
    fn in_time(
        &self,
        now: Timestamp,
        wait: Option<Duration>,
        within: Duration,
    ) -> Option<Timestamp> {
        let wait = wait.filter(|wait| *wait <= within)?;
        let in_time = wait.is_zero() || wait <= self.longest_delay();
        in_time.then(|| now.saturating_add(wait))
    }
}

/// What an admission took, and when: what a refund needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When the permits may be used.
    pub at: Timestamp,
    /// How many they are.
    pub cost: Cost,
    /// Where they stand in the state.
    pub mark: Mark,
    /// Whether they have moved from there: see [`Algorithm::refund`].
    pub moved: bool,
}

/// Where a charge stands in a state: a word of its algorithm's own for each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark([u64; crate::Policy::MAX_LIMITS]);

impl Mark {
    const fn one(word: u64) -> Self {
        let mut words = [0; crate::Policy::MAX_LIMITS];
        words[0] = word;
        Self(words)
    }

    const fn word(&self) -> u64 {
        self.0[0]
    }
}

/// The last moment in nanoseconds to which a few of the longest windows can be added: 575 years
/// after the clock's start. Time stands still there.
const LAST: u64 = u64::MAX - (1 << 58);

fn nanos(at: Timestamp) -> u64 {
    at.as_nanos().min(LAST)
}

/// Why a quota of a window can't have a burst, if it has one.
fn window_without_burst(quota: &crate::Quota) -> Result<(), crate::Error> {
    if quota.burst() == quota.permits() {
        return Ok(());
    }
    Err(crate::Error::new(
        crate::ErrorKind::InvalidQuota,
        alloc::format!(
            "a quota of {quota} in a window: the permits of a window are its burst; leave the \
             burst out"
        ),
    ))
}
