//! The limiter for one process.

use alloc::sync::Arc;
use core::{fmt, hash::BuildHasher, time::Duration};
use std::{format, hash::RandomState};

use super::{
    acquire::{Acquire, Waiting},
    engines::Keyed,
    handle::Handle,
};
use crate::{
    Answer, Check, Clock, Cost, Decision, Error, ErrorKind, Key, Limiter, Policy, Receipt,
    Reservation, SystemClock, Timer, Usage, WaitingLimiter,
};

/// A limiter that keeps its state in this process's memory.
///
/// It never holds more keys than its capacity has room for, needs no background thread, and is
/// correct under threads: a key's permits are never given out twice. Clones are one limiter.
///
/// Keys are held as 64-bit hashes under a seed drawn at random for each limiter.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};
///
/// let clock = ManualClock::new();
/// let policy = Policy::gcra("api", Quota::per_second(1)?)?;
/// let limiter = MemoryLimiter::new(policy)?.with_clock(clock.clone());
///
/// assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// assert!(!limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// # Waiting
///
/// [`acquire`](Self::acquire) waits until permits are there. Those who wait for one key have their
/// turns in the order in which they came, and as long as someone waits, `try_acquire` and `reserve`
/// are refused: no one overtakes, by whichever tier. See [`Acquire`]. With a [`SystemClock`], that
/// needs the feature `tokio`; [`acquire_blocking`](Self::acquire_blocking) needs nothing.
///
/// Keys that find no room share the permits of one key, and wait for them each in its own queue.
pub struct MemoryLimiter<C = SystemClock> {
    handle: Handle<Keyed, C>,
    seed: RandomState,
}

impl MemoryLimiter {
    /// About how many keys in debt a limiter holds apart unless [`MemoryLimiter::with_capacity`]
    /// says otherwise: 100,000. By an algorithm with a state of one word, that is about 4 MB.
    pub const DEFAULT_CAPACITY: usize = 100_000;

    /// The largest capacity: 268,435,456 keys.
    pub const MAX_CAPACITY: usize = 1 << 28;

    /// Returns a limiter that applies `policy` by the machine's clock.
    ///
    /// # Errors
    ///
    /// None at present: a policy is checked when it is built. A future algorithm may have quotas
    /// that only some limiters can hold.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        let handle = Handle::new(policy, Self::DEFAULT_CAPACITY, SystemClock::new())?;
        Ok(Self { handle, seed: RandomState::new() })
    }
}

impl<C: Clock> MemoryLimiter<C> {
    /// Returns a limiter with room for about `keys` keys in debt at once, and nothing in it.
    ///
    /// Memory is taken when the limiter is first used, and never grows past that. A new key that finds no room has to share the permits of one
    /// key with other such keys until an earlier key has recovered; keys that have a place keep it.
    /// Since a key's place depends on its hash, about one key in a thousand has to share before
    /// the limiter is full.
    ///
    /// How much memory a key takes depends on the [algorithm](crate::algorithm): two places of 16
    /// bytes where its state is one word, more for the others, and the more entries it has.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless `keys` is 1 to [`MemoryLimiter::MAX_CAPACITY`].
    pub fn with_capacity(self, keys: usize) -> Result<Self, Error>
    where
        C: Clone,
    {
        if !(1..=MemoryLimiter::MAX_CAPACITY).contains(&keys) {
            let most = MemoryLimiter::MAX_CAPACITY;
            let message = format!("a capacity of {keys} keys: use 1 to {most}");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let handle = self.handle.renewed(keys, self.handle.clock().clone());
        Ok(Self { handle, ..self })
    }

    /// Returns a limiter that reads the time from `clock`, with nothing in it.
    #[must_use]
    pub fn with_clock<D: Clock>(self, clock: D) -> MemoryLimiter<D> {
        let handle = self.handle.renewed(self.handle.capacity(), clock);
        MemoryLimiter { handle, seed: self.seed }
    }

    /// Returns the limiter as it is for the keys of another tier of its policy.
    ///
    /// Both are one limiter: what a key takes by one of them, it has taken from the other too.
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let free = Policy::gcra("free", Quota::per_hour(1)?)?;
    /// let policy = free.with_tier(Policy::gcra("premium", Quota::per_hour(100)?)?)?;
    /// let limiter = MemoryLimiter::new(policy)?;
    /// let premium = limiter.tier("premium")?;
    ///
    /// assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
    /// assert!(!premium.try_acquire("alice", Cost::new(100)?).is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if the policy has no such tier.
    pub fn tier(&self, name: &str) -> Result<Self, Error> {
        Ok(Self { handle: self.handle.tier(name)?, seed: self.seed.clone() })
    }

    /// Applies `policy` from now on, to all keys, by all clones and tiers. Keys keep their debts.
    ///
    /// The permits that were taken stay taken, as far as the new quota remembers any: a key waits no
    /// longer than that can make it wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the policy has other kinds of limits than the one before, or
    /// lacks one of its tiers. The policy then stays as it was.
    pub fn replace(&self, policy: Policy) -> Result<(), Error> {
        self.handle.replace(policy)
    }

    /// Takes `cost` permits of `key` if they are there now. Never waits, never fails.
    #[inline]
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Decision {
        self.handle.try_acquire(self.hash(&key.into()), cost)
    }

    /// Takes `cost` permits of `key` that are there now or will be `within` some time, and tells
    /// when they may be used. What comes later has to wait behind them.
    ///
    /// With a time of zero it does what `try_acquire` does, and gives a receipt.
    pub fn reserve<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> Reservation {
        self.handle.reserve(self.hash(&key.into()), cost, within)
    }

    /// Returns how far the permits of `key` are used up, and takes none.
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> Usage {
        self.handle.peek(self.hash(&key.into()))
    }

    /// Gives back what `receipt` tells, as far as it still counts.
    ///
    /// What was taken by one tier is given back to that tier alone; the others, which took account of
    /// it, keep it. Permits that have recovered since are not given back, nor those that were promised for later
    /// where others were promised after them. By GCRA, which remembers a debt and not what it is
    /// made of, less may come back than is left where something that was taken before was given
    /// back too, and never more.
    pub fn refund(&self, receipt: Receipt) {
        self.handle.refund(receipt);
    }

    /// Makes `key` a fresh one.
    ///
    /// A key that has to share the permits of others, since there was no room for it, still does.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) {
        self.handle.reset(self.hash(&key.into()));
    }

    /// Takes `cost` permits of `key` as soon as they are there, on this thread, `within` some time
    /// if that is given. If they will not be there within it, they are refused at once.
    ///
    /// For code without a runtime; see [`acquire`](Self::acquire). Both have one queue.
    pub fn acquire_blocking<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Option<Duration>,
    ) -> Reservation {
        let hash = self.hash(&key.into());
        Waiting::new(self.handle.clone(), hash, cost, within).block()
    }

    #[inline]
    fn hash(&self, key: &Key<'_>) -> u64 {
        self.seed.hash_one(key)
    }
}

impl<C: Timer> MemoryLimiter<C> {
    /// Takes `cost` permits of `key` as soon as they are there, however long that takes.
    ///
    /// Within a tokio runtime, if the clock is a [`SystemClock`]: it panics outside of one, as tokio's
    /// own timer does. It is refused at once if the cost can never fit, or if a queue is full that the policy has.
    /// The reservation has no delay any more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};
    ///
    /// # futures::executor::block_on(async {
    /// let clock = ManualClock::new();
    /// let policy = Policy::gcra("mail", Quota::per_second(1)?)?;
    /// let limiter = MemoryLimiter::new(policy)?.with_clock(clock.clone());
    ///
    /// assert!(limiter.acquire("alice", Cost::ONE).await.decision().is_admitted());
    /// let second = limiter.acquire("alice", Cost::ONE);
    /// let one_second_later = async { clock.advance(Duration::from_secs(1)) };
    /// let (second, ()) = futures::join!(second, one_second_later);
    /// assert!(second.decision().is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Acquire<C> {
        self.wait(&key.into(), cost, None)
    }

    /// Takes `cost` permits of `key` as soon as they are there, `within` some time from now.
    ///
    /// If they will not be there within it, they are refused at once.
    pub fn acquire_within<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> Acquire<C> {
        self.wait(&key.into(), cost, Some(within))
    }

    fn wait(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Acquire<C> {
        Acquire::keyed(Waiting::new(self.handle.clone(), self.hash(key), cost, within))
    }
}

/// All is answered at once, and never with an error.
impl<C: Clock + 'static> Limiter for MemoryLimiter<C> {
    fn policy(&self) -> Policy {
        self.handle.policy()
    }

    fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
        Answer::ready(Ok(self.handle.try_acquire(self.hash(key), cost)))
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        Answer::ready(Ok(self.handle.peek(self.hash(key))))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        Answer::ready(Ok(self.handle.reserve(self.hash(key), cost, within)))
    }

    fn refund(&self, receipt: Receipt) -> Answer<()> {
        self.handle.refund(receipt);
        Answer::ready(Ok(()))
    }

    fn reset(&self, key: &Key<'_>) -> Answer<()> {
        self.handle.reset(self.hash(key));
        Answer::ready(Ok(()))
    }

    fn replace(&self, policy: Policy) -> Result<(), Error> {
        self.handle.replace(policy)
    }

    fn tier(&self, name: &str) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self { handle: self.handle.tier(name)?, seed: self.seed.clone() }))
    }
}

/// As [`MemoryLimiter::acquire`] and [`MemoryLimiter::acquire_within`], at the price of a box.
impl<C: Timer + 'static> WaitingLimiter for MemoryLimiter<C> {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation> {
        let acquire = self.wait(key, cost, within);
        Answer::pending(async { Ok(acquire.await) })
    }
}

impl<C> Clone for MemoryLimiter<C> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), seed: self.seed.clone() }
    }
}

impl<C> fmt::Debug for MemoryLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLimiter").field(&self.handle).finish()
    }
}
