//! The limiter for one process and one subject.

use core::{fmt, time::Duration};

use super::{
    acquire::{Acquire, Waiting},
    engines::Unkeyed,
    handle::Handle,
};
use crate::{
    Clock, Cost, Decision, Error, Policy, Receipt, Reservation, SystemClock, Timer, Usage,
};

/// One limit for all, such as that of a service that is called: a [`MemoryLimiter`] without keys,
/// and without a table for them.
///
/// [`MemoryLimiter`]: crate::MemoryLimiter
///
/// ```
/// use limiter_core::{Cost, Policy, Quota, UnkeyedLimiter};
///
/// let limiter = UnkeyedLimiter::new(Policy::gcra("outgoing", Quota::per_hour(1)?)?)?;
/// assert!(limiter.try_acquire(Cost::ONE).is_admitted());
/// assert!(!limiter.try_acquire(Cost::ONE).is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
pub struct UnkeyedLimiter<C = SystemClock> {
    handle: Handle<Unkeyed, C>,
}

/// Any will do.
const HASH: u64 = 0;

impl UnkeyedLimiter {
    /// Returns a limiter that applies `policy` by the machine's clock.
    ///
    /// # Errors
    ///
    /// As [`MemoryLimiter::new`](crate::MemoryLimiter::new).
    pub fn new(policy: Policy) -> Result<Self, Error> {
        Ok(Self { handle: Handle::new(policy, 1, SystemClock::new())? })
    }
}

impl<C: Clock> UnkeyedLimiter<C> {
    /// Returns a limiter that reads the time from `clock`, with nothing in it.
    #[must_use]
    pub fn with_clock<D: Clock>(self, clock: D) -> UnkeyedLimiter<D> {
        UnkeyedLimiter { handle: self.handle.renewed(1, clock) }
    }

    /// Returns the limiter as it is by another tier of its policy: both share one debt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName) if the policy has no such tier.
    pub fn tier(&self, name: &str) -> Result<Self, Error> {
        Ok(Self { handle: self.handle.tier(name)? })
    }

    /// Returns the policy that is applied, or the tier.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.handle.policy()
    }

    /// Applies `policy` from now on, and keeps the debt, as
    /// [`MemoryLimiter::replace`](crate::MemoryLimiter::replace) does.
    ///
    /// # Errors
    ///
    /// As [`MemoryLimiter::replace`](crate::MemoryLimiter::replace).
    pub fn replace(&self, policy: Policy) -> Result<(), Error> {
        self.handle.replace(policy)
    }

    /// Takes `cost` permits if they are there now. Never waits, never fails.
    #[inline]
    pub fn try_acquire(&self, cost: Cost) -> Decision {
        self.handle.try_acquire(HASH, cost)
    }

    /// Takes `cost` permits that are there now or will be `within` some time, and tells when they
    /// may be used. What comes later has to wait behind them.
    pub fn reserve(&self, cost: Cost, within: Duration) -> Reservation {
        self.handle.reserve(HASH, cost, within)
    }

    /// Returns how far the permits are used up, and takes none.
    #[must_use]
    pub fn peek(&self) -> Usage {
        self.handle.peek(HASH)
    }

    /// Gives back what `receipt` tells, as far as it still counts.
    pub fn refund(&self, receipt: Receipt) {
        self.handle.refund(receipt);
    }

    /// Forgets what was taken.
    pub fn reset(&self) {
        self.handle.reset(HASH);
    }

    /// Takes `cost` permits as soon as they are there, on this thread, `within` some time if that
    /// is given. If they will not be there within it, they are refused at once.
    pub fn acquire_blocking(&self, cost: Cost, within: Option<Duration>) -> Reservation {
        Waiting::new(self.handle.clone(), HASH, cost, within).block()
    }
}

impl<C: Timer> UnkeyedLimiter<C> {
    /// Takes `cost` permits as soon as they are there, as
    /// [`MemoryLimiter::acquire`](crate::MemoryLimiter::acquire) does.
    pub fn acquire(&self, cost: Cost) -> Acquire<C> {
        Acquire::unkeyed(Waiting::new(self.handle.clone(), HASH, cost, None))
    }

    /// Takes `cost` permits as soon as they are there, `within` some time from now. If they will
    /// not be there within it, they are refused at once.
    pub fn acquire_within(&self, cost: Cost, within: Duration) -> Acquire<C> {
        Acquire::unkeyed(Waiting::new(self.handle.clone(), HASH, cost, Some(within)))
    }
}

impl<C> Clone for UnkeyedLimiter<C> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<C> fmt::Debug for UnkeyedLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnkeyedLimiter").field(&self.handle).finish()
    }
}
