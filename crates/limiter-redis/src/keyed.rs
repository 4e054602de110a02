//! The operations for keys of any type, as the limiter in memory has them.

use std::time::Duration;

use limiter_core::{
    Answer, Check, Cost, Error, ErrorKind, Key, Limiter, Policy, Receipt, Reservation, Usage,
    WaitingLimiter,
};

use crate::{client::ScriptClient, limiter::RedisLimiter};

/// Each is the operation of [`Limiter`] or [`WaitingLimiter`] by that name, for keys of any type.
impl<C: ScriptClient> RedisLimiter<C> {
    /// Takes `cost` permits of `key` if they are there now: see [`Limiter::check`].
    ///
    /// ```no_run
    /// # async fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::Cost;
    ///
    /// if !limiter.try_acquire("alice", Cost::ONE).await?.is_admitted() {
    ///     // Too many attempts.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Check {
        self.check(&key.into(), cost)
    }

    /// Returns how far the permits of `key` are used up, and takes none: see [`Limiter::peek`].
    ///
    /// The script writes nothing, and may run on a replica where
    /// [`ConnectOptions`](crate::ConnectOptions) say so: it then tells of a moment ago.
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> Answer<Usage> {
        Limiter::peek(self, &key.into())
    }

    /// Takes `cost` permits of `key` that are there now or will be `within` some time: see
    /// [`Limiter::reserve`].
    ///
    /// Permits can be promised for five years at most, and by a rate for 2^52 ticks of its
    /// [`Meter`](limiter_core::algorithm::Meter): a time that is longer counts as that.
    pub fn reserve<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> Answer<Reservation> {
        Limiter::reserve(self, &key.into(), cost, within)
    }

    /// Gives back what `receipt` tells, as far as it still counts: see [`Limiter::refund`].
    pub fn refund(&self, receipt: Receipt) -> Answer<()> {
        Limiter::refund(self, receipt)
    }

    /// Makes `key` a fresh one: see [`Limiter::reset`].
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) -> Answer<()> {
        Limiter::reset(self, &key.into())
    }

    /// Takes `cost` permits of `key` as soon as they are there: see [`WaitingLimiter::acquire`].
    ///
    /// The server decides the order, among all processes; who waits asks it once, and sleeps until
    /// its turn. Whoever leaves before gives the place back, which comes to those who ask later: those
    /// who are behind it already keep the turns that they were told.
    ///
    /// ```no_run
    /// # async fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::Cost;
    ///
    /// limiter.acquire("alice", Cost::ONE).await?;
    /// // It is alice's turn.
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Answer<Reservation> {
        WaitingLimiter::acquire(self, &key.into(), cost, None)
    }

    /// Takes `cost` permits of `key` as soon as they are there, `within` some time, or is refused at
    /// once: see [`WaitingLimiter::acquire`].
    pub fn acquire_within<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> Answer<Reservation> {
        WaitingLimiter::acquire(self, &key.into(), cost, Some(within))
    }

    /// Returns the limiter as it is for the keys of another tier of its policy: see
    /// [`Limiter::tier`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if the policy has no such tier.
    pub fn tier(&self, name: &str) -> Result<Self, Error> {
        let policy = self.shared.policy(0);
        let Some(index) = policy.tiers().iter().position(|tier| tier.name() == name) else {
            return Err(Error::new(
                ErrorKind::InvalidName,
                format!("the policy {:?} has no tier {name:?}", policy.name()),
            ));
        };
        Ok(Self { tier: index + 1, ..self.clone() })
    }

    /// Applies `policy` from now on in this process, by all clones and tiers. Keys keep their debts,
    /// measured by the new quotas from when they are next asked for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the policy has another name, since keys have it, other kinds
    /// of limits, or lacks one of the tiers; or if a single limit by sub-windows or a log, which has
    /// a value of its own kind, gets a first tier.
    ///
    /// [`ErrorKind::InvalidQuota`] as [`RedisLimiter::new`]. The policy then stays as it was.
    pub fn replace(&self, policy: Policy) -> Result<(), Error> {
        self.shared.replace(policy)
    }
}
