//! The limiter for one process.

mod joint;

use std::{any::Any, fmt, pin::Pin, sync::Arc, time::Duration};

use super::{acquire::Acquire, capacity::check_capacity, handle::Handle};
use crate::{
    Clock, Cost, Decision, Demand, Error, JointDecision, Key, Limiter, LimiterFuture, LimiterId,
    Policy, Receipt, Reservation, Store, SystemClock, Timer, Usage, WaitingLimiter,
    memory::KeyHasher,
};

/// A limiter that keeps its states in this process's memory.
///
/// Its memory is bounded by its capacity, it needs no background thread, and it is correct under
/// threads: no permit is admitted twice. Clones and [handles](Self::with_policy) share one set of
/// states.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(2)));
/// assert!(limiter.check("alice").is_admitted());
/// assert!(limiter.check("alice").is_admitted());
/// assert!(!limiter.check("alice").is_admitted());
/// assert!(limiter.check("bob").is_admitted());
/// ```
///
/// # Waiting
///
/// [`acquire`](Self::acquire) waits for permits. Waiters for one key are served in the order in which
/// they came, and while there are waiters, `check` and `reserve` are refused. A waiter is charged for
/// the moment at which it is due, however late its timer fires. A task that asks for one permit after
/// the other asks later than that: with tokio's timer, which counts in milliseconds, it gets the whole
/// rate only if the burst lasts for two milliseconds or more. With a [`SystemClock`], waiting as a
/// future needs the feature `tokio`; [`acquire_blocking`](Self::acquire_blocking) needs nothing.
///
/// # Hashes of keys
///
/// A key is stored as its hash of 64 bits, by foldhash under a seed of the limiter's own. Two keys with
/// one hash share one debt and one queue of waiters, and a reset of one resets the other. Without resets,
/// they never get more permits together than apart: a client gains nothing from two colliding keys of its
/// own. But a client whose key collides with another client's can use up that client's permits.
///
/// Each part of a key is hashed with its kind and its length, in order. The seed differs between limiters and between
/// starts of the program, so nobody can prepare colliding keys without it. But foldhash is not a cryptographic hash: the
/// seed can be computed from hashes, which are never printed, and perhaps from measured times. If clients choose their
/// keys and you have to rule that out, set [another hasher](crate::Builder::hasher), such as the standard library's,
/// which is SipHash.
pub struct MemoryLimiter<C = SystemClock> {
    handle: Handle<C>,
    hasher: KeyHasher,
}

impl<C: Clock> MemoryLimiter<C> {
    pub(crate) fn of(handle: Handle<C>, hasher: KeyHasher) -> Self {
        Self { handle, hasher }
    }

    /// Returns the policy that this handle enforces.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.handle.states.policy
    }

    /// Returns a handle on the same states that enforces `policy`, which is cheap enough to be called
    /// for each request: for tiers, for quotas of single customers, and for reloads.
    ///
    /// Handles whose policies have the same [identities](Policy::identities) share the states of their keys: by GCRA, the
    /// fraction of the burst that is used, by other algorithms the number of permits. Under any other policy, a key begins
    /// fresh.
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("free", Quota::per_hour(10)));
    /// let premium = limiter.with_policy(&Policy::gcra("premium", Quota::per_hour(1_000)))?;
    ///
    /// assert!(limiter.check_n("alice", Cost::of(5)).is_admitted());
    /// // A half is used. By a window, it would be 5 permits.
    /// assert_eq!(premium.peek("alice").remaining(), 500);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the policy has other
    /// [families](Policy::families) than this limiter's states, or other names for several limits.
    pub fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        Ok(Self { handle: self.handle.with_policy(policy)?, hasher: self.hasher.clone() })
    }

    /// Returns another limiter, of any algorithm, with the settings and the clock of this one and states of its own. Its
    /// table takes as much memory as that of this one: see [`sibling_with_capacity`](Self::sibling_with_capacity).
    ///
    /// ```
    /// use limiter_core::{MemoryLimiter, Policy, Quota};
    ///
    /// let users = MemoryLimiter::builder(Policy::gcra("user", Quota::per_second(10))).capacity(50_000).build()?;
    /// let tenants = users.sibling(&Policy::sliding_log("tenant", Quota::per_hour(1_000)));
    /// assert!(users.check("alice").is_admitted() && tenants.check("acme").is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    #[must_use]
    pub fn sibling(&self, policy: &Policy) -> Self {
        self.sibling_of(policy, self.handle.capacity())
    }

    /// Returns a [`sibling`](Self::sibling) with room for `keys` keys: 10 tenants need less memory than 100,000 users.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if `keys` is not from 1 to
    /// [`Builder::MAX_CAPACITY`](crate::Builder::MAX_CAPACITY).
    pub fn sibling_with_capacity(&self, policy: &Policy, keys: usize) -> Result<Self, Error> {
        check_capacity(keys)?;
        Ok(self.sibling_of(policy, keys))
    }

    fn sibling_of(&self, policy: &Policy, keys: usize) -> Self {
        let hasher = self.hasher.sibling();
        Self::of(self.handle.sibling(policy, hasher.clone(), keys), hasher)
    }

    /// Returns how many decisions had no state so far, because the table had no free slot for their keys: see
    /// [`Builder::on_full`](crate::Builder::on_full).
    #[must_use]
    pub fn times_full(&self) -> u64 {
        self.handle.states.times_full()
    }

    /// Charges one permit to `key` if it fits now.
    #[inline(always)]
    pub fn check<'a>(&self, key: impl Into<Key<'a>>) -> Decision {
        self.check_n(key, Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now. Never waits for permits.
    #[inline(always)]
    pub fn check_n<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Decision {
        let hash = self.hash(&key.into());
        self.handle.check(hash, cost)
    }

    /// Returns how far the permits of `key` are used up, and charges nothing.
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> Usage {
        self.handle.peek(self.hash(&key.into()))
    }

    /// Charges `cost` to `key` if it fits now or up to `within` later, and returns the delay. What is
    /// charged later has to wait behind it.
    ///
    /// Permits are promised no farther ahead than the policy's horizon. With `within` zero, this is
    /// [`check_n`](Self::check_n) with a receipt.
    pub fn reserve<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> Reservation {
        self.handle.reserve(self.hash(&key.into()), cost, within)
    }

    /// Charges as many permits as fit now, at most `most`, and returns how many: see
    /// [`Limiter::take_up_to`].
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("rows", Quota::per_hour(100)));
    /// let batch = limiter.take_up_to("import", Cost::of(80));
    /// assert_eq!(batch.permits(), 80);
    /// assert_eq!(limiter.take_up_to("import", Cost::of(80)).permits(), 20);
    /// assert!(!limiter.take_up_to("import", Cost::of(80)).is_admitted());
    ///
    /// // 50 rows were read. The others come back.
    /// let receipt = batch.into_receipt().expect("permits were charged");
    /// assert_eq!(limiter.refund(receipt.keep(50)), 30);
    /// ```
    pub fn take_up_to<'a>(&self, key: impl Into<Key<'a>>, most: Cost) -> Reservation {
        self.handle.take_up_to(self.hash(&key.into()), most)
    }

    /// Charges `cost` whether or not it fits, for work that has been done, and returns how many permits were
    /// charged: see [`Limiter::charge`].
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("tokens", Quota::per_minute(1_000)));
    /// assert!(limiter.check("alice").is_admitted());
    /// // The answer took 1,500 tokens.
    /// assert_eq!(limiter.charge("alice", Cost::of(1_500)).permits(), 1_500);
    /// // 30 seconds until the debt is that of a burst, and the time of one token.
    /// let refusal = limiter.check("alice");
    /// assert!(refusal.retry_after().is_some_and(|wait| wait.as_secs() == 30));
    /// ```
    pub fn charge<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Reservation {
        self.handle.charge(self.hash(&key.into()), cost)
    }

    /// Gives back the permits of `receipt` as far as they still count, and returns how many came
    /// back: see [`Limiter::refund`].
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is used up")]
    #[expect(clippy::must_use_candidate, reason = "most callers have no use for the number")]
    pub fn refund(&self, receipt: Receipt) -> u64 {
        self.handle.refund(&receipt)
    }

    /// Makes `key` fresh, under this policy and under those of all handles of this limiter.
    ///
    /// Of more than 1,000 different [identities](Policy::identities), it resets this handle's and those of the first 1,000.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) {
        self.handle.reset(self.hash(&key.into()));
    }

    /// Charges `cost` to `key` as soon as it fits, on this thread, up to `within` from now if that is
    /// given. If it will not fit by then, it is refused at once.
    ///
    /// For code without a runtime. It shares its queue with [`acquire`](Self::acquire).
    pub fn acquire_blocking<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Option<Duration>,
    ) -> Reservation {
        self.waiter(&key.into(), cost, within).block()
    }

    #[inline(always)]
    fn hash(&self, key: &Key<'_>) -> u64 {
        self.hasher.hash(key)
    }

    /// Charges `cost` to `key` as soon as it fits, up to `within` from now if that is given.
    ///
    /// It is refused at once if it will not fit by then, if it never fits, if the policy is a leaky queue that is
    /// full, or if too many calls [wait already](crate::Builder::max_waiting). It may wait beyond the policy's horizon. The place in the queue is taken when the future is first polled; a
    /// future that is dropped gives its place back, and whatever was charged for it. With a [`SystemClock`], poll it
    /// within a tokio runtime; outside of one, tokio's timer panics. Like any `async` block, the future panics if it is
    /// polled again after it was ready.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};
    ///
    /// # futures::executor::block_on(async {
    /// let clock = ManualClock::new();
    /// let policy = Policy::gcra("mail", Quota::per_second(1));
    /// let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build()?;
    ///
    /// assert!(limiter.acquire("alice", Cost::ONE, None).await.is_admitted());
    /// let second = limiter.acquire("alice", Cost::ONE, None);
    /// let one_second_later = async { clock.advance(Duration::from_secs(1)) };
    /// let (second, ()) = futures::join!(second, one_second_later);
    /// assert!(second.is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn acquire<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Option<Duration>,
    ) -> Pin<Box<dyn Future<Output = Reservation> + Send>>
    where
        C: Timer + 'static,
    {
        Box::pin(self.waiter(&key.into(), cost, within).wait())
    }

    fn waiter(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Acquire<C> {
        Acquire::new(self.handle.clone(), self.hash(key), cost, within)
    }
}

impl<C: Clock + 'static> Limiter for MemoryLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.handle.states.policy
    }

    fn store(&self) -> &'static str {
        "memory"
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        LimiterFuture::ready(Ok(self.handle.check(self.hash(key), cost)))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        LimiterFuture::ready(Ok(self.handle.peek(self.hash(key))))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.handle.reserve(self.hash(key), cost, within)))
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.handle.take_up_to(self.hash(key), most)))
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.handle.charge(self.hash(key), cost)))
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        LimiterFuture::ready(Ok(self.handle.refund(&receipt)))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.handle.reset(self.hash(key));
        LimiterFuture::ready(Ok(()))
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling(self, policy)))
    }

    fn sibling_with_capacity(
        &self,
        policy: &Policy,
        keys: usize,
    ) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling_with_capacity(self, policy, keys)?))
    }
}

impl<C: Clock + 'static> Store for MemoryLimiter<C> {
    fn id(&self) -> LimiterId {
        self.handle.id()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        Some(self.handle.preview(self.hash(key), cost))
    }

    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        _is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        Some(LimiterFuture::ready(Ok(joint::decide::<C>(demands)?)))
    }
}

/// [`MemoryLimiter::acquire`] in a box.
impl<C: Timer + 'static> WaitingLimiter for MemoryLimiter<C> {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        let acquire = self.waiter(key, cost, within).wait();
        LimiterFuture::pending(async { Ok(acquire.await) })
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C> Clone for MemoryLimiter<C> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), hasher: self.hasher.clone() }
    }
}

impl<C> fmt::Debug for MemoryLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLimiter").field(&self.handle.states).finish()
    }
}
