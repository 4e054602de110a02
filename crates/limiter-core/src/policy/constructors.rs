//! A constructor for each algorithm, for quotas that are constants of the program.

use super::Policy;
use crate::{Algorithm, Quota, Slots};

/// Constructors for constants, without `?`. For values from outside the program, use [`Policy::new`]
/// or [`Policy::parse`].
impl Policy {
    /// Returns a policy by GCRA, the generic cell rate algorithm: a burst at once, then permits at the
    /// quota's rate. The default choice.
    ///
    /// # Panics
    ///
    /// If the name is invalid: see [`Policy::new`].
    #[must_use]
    pub fn gcra(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::Gcra, quota)
    }

    /// Returns a policy with a bucket of `capacity` tokens, refilled at the rate of `refill`: GCRA
    /// with a burst of `capacity`.
    ///
    /// # Panics
    ///
    /// If the name is invalid, if `capacity` is zero or takes too long to refill
    /// ([`Quota::with_burst`]), or if `refill` has another burst of its own.
    #[must_use]
    pub fn token_bucket(name: &str, capacity: u64, refill: Quota) -> Self {
        let has_own_burst = refill.burst() != refill.permits() && refill.burst() != capacity;
        assert!(
            !has_own_burst,
            "invalid quota \"{refill}\": the capacity, {capacity}, is the burst; leave the burst out"
        );
        Self::gcra(name, refill.with_burst(capacity))
    }

    /// Returns a policy with a bucket that leaks at the rate of `leak` and refuses what would raise its
    /// level above `capacity`: GCRA with a burst of `capacity`.
    /// Panics as [`Policy::token_bucket`] does.
    #[must_use]
    #[doc(alias = "leaky_meter")]
    pub fn leaky_bucket(name: &str, capacity: u64, leak: Quota) -> Self {
        Self::token_bucket(name, capacity, leak)
    }

    /// Returns a policy with a queue: the burst of `outflow` passes at once, further permits are
    /// spaced evenly at its rate, and at most `depth` of them wait.
    ///
    /// `reserve` returns the delay, and `acquire` waits. `check` never waits, so it admits only what
    /// passes at once. For a steady outflow, use a burst of 1.
    ///
    /// # Panics
    ///
    /// If the name is invalid, or if `depth` permits take longer than [`Quota::MAX_RECOVERY`].
    #[must_use]
    pub fn leaky_queue(name: &str, depth: u64, outflow: Quota) -> Self {
        Self::served(name, Algorithm::LeakyQueue { depth }, outflow)
    }

    /// Returns a policy with a counter that starts anew with each window. A window opens with the
    /// first permit that is taken in it.
    ///
    /// # Panics
    ///
    /// If the name is invalid, or if the quota has a burst of its own.
    #[must_use]
    pub fn fixed_window(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::FixedWindow, quota)
    }

    /// Returns a policy with a counter that starts anew with each window. Windows open at multiples
    /// of their length since the Unix epoch: a minute at second 0, a day at 0:00 UTC.
    /// Panics as [`Policy::fixed_window`] does.
    #[must_use]
    pub fn aligned_window(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::AlignedWindow, quota)
    }

    /// Returns a policy with a window that slides slot by slot. Panics as [`Policy::fixed_window`]
    /// does, or if the window can't be cut into so many slots.
    #[must_use]
    pub fn sub_windows(name: &str, quota: Quota, slots: Slots) -> Self {
        Self::served(name, Algorithm::SubWindows(slots), quota)
    }

    /// Returns a policy with a window that slides by an estimate from two counters. Panics as
    /// [`Policy::fixed_window`] does, or if the quota has more than 50,000,000 permits.
    #[must_use]
    pub fn sliding_counter(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::SlidingCounter, quota)
    }

    /// Returns a policy with a window that slides exactly, by a log of all permits. Panics as
    /// [`Policy::fixed_window`] does, or if the quota has more than 1,000,000 permits.
    #[must_use]
    pub fn sliding_log(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::SlidingLog, quota)
    }

    #[expect(clippy::panic, reason = "documented: a constant that can't be served")]
    fn served(name: &str, algorithm: Algorithm, quota: Quota) -> Self {
        Self::new(name, algorithm, quota).unwrap_or_else(|error| panic!("{error}"))
    }
}
