//! The limiter for one process and one subject.

use std::{fmt, pin::Pin, time::Duration};

use super::{acquire::Acquire, handle::Handle, on_full::OnFull, states::States};
use crate::{
    Clock, Cost, Decision, Error, Policy, Receipt, Reservation, SystemClock, Timer, Usage,
};

/// One limit for all callers, such as that of a service that is called: a
/// [`MemoryLimiter`](crate::MemoryLimiter) with room for one key.
///
/// ```
/// use limiter_core::{Policy, Quota, UnkeyedLimiter};
///
/// let limiter = UnkeyedLimiter::new(Policy::gcra("outgoing", Quota::per_hour(1)));
/// assert!(limiter.check().is_admitted());
/// assert!(!limiter.check().is_admitted());
/// ```
///
/// The operations are those of [`MemoryLimiter`](crate::MemoryLimiter), without a key.
pub struct UnkeyedLimiter<C = SystemClock>(Handle<C>);

/// The hash of the only key.
const HASH: u64 = 1;

impl UnkeyedLimiter {
    /// Returns a limiter of `policy` by the machine's clock.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_clock(policy, SystemClock::new())
    }
}

impl<C: Clock> UnkeyedLimiter<C> {
    /// Returns a limiter of `policy` by `clock`.
    #[must_use]
    pub fn with_clock(policy: Policy, clock: C) -> Self {
        // One log is bounded by its own limit.
        Self(Handle::new(States::new(policy, 1, usize::MAX, false, OnFull::Refuse), 1, clock))
    }

    /// Returns the policy that this handle enforces.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.states.policy
    }

    /// Returns a handle on the same state that enforces `policy`.
    ///
    /// # Errors
    ///
    /// As [`MemoryLimiter::with_policy`](crate::MemoryLimiter::with_policy).
    pub fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        Ok(Self(self.0.with_policy(policy)?))
    }

    /// Charges one permit if it fits now.
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_n(Cost::ONE)
    }

    /// Charges `cost` if it fits now. Never waits for permits.
    #[inline]
    pub fn check_n(&self, cost: Cost) -> Decision {
        self.0.check(HASH, cost)
    }

    /// Returns how far the permits are used up, and charges nothing.
    #[must_use]
    pub fn peek(&self) -> Usage {
        self.0.peek(HASH)
    }

    /// Charges `cost` if it fits now or up to `within` later, and returns the delay.
    pub fn reserve(&self, cost: Cost, within: Duration) -> Reservation {
        self.0.reserve(HASH, cost, within)
    }

    /// Gives back the permits of `receipt` as far as they still count, and returns how many came
    /// back: see [`Limiter::refund`](crate::Limiter::refund).
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is used up")]
    #[expect(clippy::must_use_candidate, reason = "most callers have no use for the number")]
    pub fn refund(&self, receipt: Receipt) -> u64 {
        self.0.refund(&receipt)
    }

    /// Forgets all that was charged.
    pub fn reset(&self) {
        self.0.reset(HASH);
    }

    /// Charges `cost` as soon as it fits, on this thread, up to `within` from now if that is given.
    pub fn acquire_blocking(&self, cost: Cost, within: Option<Duration>) -> Reservation {
        Acquire::new(self.0.clone(), HASH, cost, within).block()
    }

    /// Charges `cost` as soon as it fits, up to `within` from now if that is given.
    #[must_use = "futures do nothing unless they are awaited"]
    pub fn acquire(
        &self,
        cost: Cost,
        within: Option<Duration>,
    ) -> Pin<Box<dyn Future<Output = Reservation> + Send>>
    where
        C: Timer + 'static,
    {
        Box::pin(Acquire::new(self.0.clone(), HASH, cost, within).wait())
    }
}

impl<C> Clone for UnkeyedLimiter<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> fmt::Debug for UnkeyedLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnkeyedLimiter").field(&self.0.states).finish()
    }
}
