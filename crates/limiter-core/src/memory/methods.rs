//! What callers ask a limiter for.

use std::{pin::Pin, sync::Arc, time::Duration};

use super::{acquire::Acquire, builder::check_capacity, limiter::MemoryLimiter, tables::Limits};
use crate::{
    Clock, Cost, Decision, Error, Key, Policy, Receipt, Reservation, Source, Timer, Usage,
    receipt::Taken, waiting::Wait,
};

impl<C: Clock> MemoryLimiter<C> {
    /// Returns the policy that this handle enforces.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.limits.policy
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
        self.policy().check_families(policy)?;
        Ok(Self::handle(Arc::clone(&self.shared), policy, self.hasher.clone()))
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
        self.sibling_of(policy, self.tables().room.keys)
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

    /// Returns how many decisions had no state so far, because the table had no free slot for their keys: see
    /// [`Builder::on_full`](crate::Builder::on_full).
    #[must_use]
    pub fn times_full(&self) -> u64 {
        self.tables().times_full()
    }

    /// Charges one permit to `key` if it fits now.
    #[inline(always)]
    pub fn check<'a>(&self, key: impl Into<Key<'a>>) -> Decision {
        self.check_hash(self.hasher.hash(&key.into()), Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now. Never waits for permits.
    #[inline(always)]
    pub fn check_n<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Decision {
        self.check_hash(self.hasher.hash(&key.into()), cost)
    }

    /// Returns how far the permits of `key` are used up, and charges nothing.
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> Usage {
        let key = self.hasher.hash(&key.into());
        self.with_waiters(key, |_| ());
        self.tables().operate(&self.limits, key, None, |states| states.usage())
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
        self.reserve_hash(self.hasher.hash(&key.into()), cost, within)
    }

    /// Charges as many permits as fit now, at most `most`, and returns how many: see
    /// [`Limiter::take_up_to`](crate::Limiter::take_up_to).
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
        let key = self.hasher.hash(&key.into());
        let take =
            || self.tables().decide(&self.limits, key, None, |states| states.take_up_to(most));
        let outcome = self.refusal(key, Cost::ONE).unwrap_or_else(take);
        let uncounted = most.get().min(outcome.decision.remaining());
        self.reservation(key, outcome, uncounted)
    }

    /// Charges `cost` whether or not it fits, for work that has been done, and returns how many permits were
    /// charged: see [`Limiter::charge`](crate::Limiter::charge).
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
        let key = self.hasher.hash(&key.into());
        // Also if there are waiters.
        let outcome = self.change(key, |tables| {
            tables.decide(&self.limits, key, None, |states| states.charge(cost))
        });
        let is_counted = outcome.decision.source() != Source::FullTable;
        self.reservation(key, outcome, if is_counted { 0 } else { cost.get() })
    }

    /// Gives back the permits of `receipt` as far as they still count, and returns how many came
    /// back: see [`Limiter::refund`](crate::Limiter::refund).
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is used up")]
    #[expect(clippy::must_use_candidate, reason = "most callers have no use for the number")]
    pub fn refund(&self, receipt: Receipt) -> u64 {
        let own = receipt.taken().filter(|taken| taken.limiter == self.tables().id);
        own.map_or(0, |Taken { key, policy, charged, .. }| {
            let limits = Limits::new(policy, self.tables(), &self.hasher);
            self.change(*key, |tables| tables.refund(&limits, *key, charged, receipt.permits()))
        })
    }

    /// Makes `key` fresh, under this policy and under those of all handles of this limiter.
    ///
    /// Of more than 1,000 different [identities](Policy::identities), it resets this handle's and those of the first 1,000.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) {
        let key = self.hasher.hash(&key.into());
        self.change(key, |tables| tables.reset(&self.limits, key));
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

    /// Charges `cost` to `key` as soon as it fits, up to `within` from now if that is given.
    ///
    /// It is refused at once if it will not fit by then, if it never fits, if the policy is a leaky queue that is
    /// full, or if too many calls [wait already](crate::Builder::max_waiting). It may wait beyond the policy's horizon.
    ///
    /// The place in the queue is taken when the future is first polled. If that is later than `within`, it is refused, unless
    /// `within` is zero. A future that is dropped gives its place back, and whatever was charged for it. With a
    /// [`SystemClock`](crate::SystemClock), poll it within a tokio runtime; outside of one, tokio's timer panics. Like any
    /// `async` block, the future panics if it is polled again after it was ready.
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

    pub(super) fn waiter(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Acquire<C> {
        Acquire::new(self.clone(), self.hasher.hash(key), cost, within)
    }
}
