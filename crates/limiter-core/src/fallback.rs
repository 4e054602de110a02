//! A limiter on a store, and a limiter in memory that decides while the store fails.

mod list;
mod pair;

use alloc::sync::Arc;
use core::{
    any::Any,
    fmt,
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use pair::{Follow, Pair, as_local, share};

use crate::{
    Cost, Decision, Demand, Error, JointDecision, Key, Limiter, LimiterFuture, LimiterId,
    MemoryLimiter, Policy, Receipt, Reservation, Store, Usage, WaitingLimiter,
};

/// A limiter on a store, with a limiter in memory that decides while the store fails.
///
/// ```
/// use std::num::NonZeroU32;
/// use limiter_core::{Fallback, Limiter, MemoryLimiter, Policy, Quota};
///
/// # futures::executor::block_on(async {
/// let policy = Policy::gcra("api", Quota::per_minute(100));
/// // Otherwise a limiter on a store that four processes share.
/// let store = MemoryLimiter::new(policy);
/// let limiter = Fallback::new(store.clone()).sharing(NonZeroU32::new(4).unwrap())?;
///
/// let decision = limiter.check(&"alice".into()).await?;
/// assert_eq!((decision.burst(), decision.remaining()), (100, 99));
/// assert_eq!(store.peek("alice").remaining(), 99);
/// // If the store fails now, this process admits 24 requests of alice.
/// # Ok::<(), limiter_core::Error>(())
/// # }).unwrap();
/// ```
///
/// While the store decides, this limiter returns what the store's limiter returns. If an operation fails by an error of
/// the store, the limiter in memory decides it: [`Source::Local`](crate::Source::Local) shows that. In detail:
///
/// - What the store admits is charged in memory, too, as far as it fits there. So an outage gives no key a new
///   allowance of this process: of 10 a minute, 4 by the store and then 6 in memory. If a future is dropped before it is
///   ready, the store may have charged what is not charged in memory.
/// - A list of demands is [decided](crate::decide) by the store, or as a whole in memory. If one of them is on a limiter
///   of the store without a fallback, the list fails with the store.
/// - A refund returns permits to the limiter that charged them. Those that are returned to the store are returned in
///   memory, too.
/// - A refund of permits of the store, and a reset, return the store's error. A reset is done in memory in any case.
/// - The [id](Store::id), the policy and the name of the store are those of the store's limiter.
/// - Callers can wait if they can with both limiters. If the store fails meanwhile, the wait in memory begins anew.
///
/// # Errors
///
/// Decisions return only errors that are not the store's, such as [`InvalidSetting`](crate::ErrorKind::InvalidSetting)
/// for a key that the store's limiter does not accept; and the store's error if the second limiter fails, too, which one
/// in memory never does.
pub struct Fallback<L, M = MemoryLimiter> {
    store: Arc<L>,
    local: Arc<M>,
    pair: Arc<Pair>,
}

impl<L: Limiter + 'static> Fallback<L> {
    /// Returns `store` with a limiter in memory that enforces the same policy: for a single process. Several processes
    /// should have a [share](Self::sharing) each.
    pub fn new(store: L) -> Self {
        let local = MemoryLimiter::new(store.policy().clone());
        Self::of(Arc::new(store), Arc::new(local), Arc::default(), 0)
    }
}

impl<L: Limiter + 'static, M: Limiter + 'static> Fallback<L, M> {
    /// Replaces the limiter in memory: for another clock or capacity, or a policy for outages. It enforces its own policy,
    /// unless [`sharing`](Self::sharing) follows.
    ///
    /// ```
    /// use limiter_core::{Fallback, MemoryLimiter, Policy, Quota};
    ///
    /// let store = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
    /// let memory = MemoryLimiter::builder(Policy::gcra("outage", Quota::per_minute(10)));
    /// let limiter = Fallback::new(store).with(memory.capacity(10_000).build()?);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    pub fn with<N: Limiter + 'static>(self, limiter: N) -> Fallback<L, N> {
        Fallback::of(self.store, Arc::new(limiter), Arc::default(), 0)
    }

    /// Makes the limiter in memory enforce this process's share of the store's policy: each quota is divided by the
    /// number of `processes`, as by [`Policy::share_among`].
    ///
    /// # Errors
    ///
    /// Those of [`Policy::share_among`], and those of [`Limiter::with_policy`] if the limiter that was
    /// [given](Self::with) can't enforce the policy.
    pub fn sharing(self, processes: NonZeroU32) -> Result<Self, Error> {
        let Self { store, local, .. } = self;
        let share = local.with_policy(&store.policy().share_among(processes)?)?;
        let number = processes.get();
        let pair = Pair::new(Arc::clone(&store) as _, Arc::new(number.into()), (number, share));
        Ok(Self { store, local, pair })
    }

    /// Sets how many processes share the store from now on, for all handles and siblings: as [`sharing`](Self::sharing)
    /// does. If a share can't be served, the previous one stays.
    ///
    /// A share is rounded down, so one of another number may have another [span](Policy::identities): while the store
    /// fails, keys then begin fresh under it.
    pub fn set_processes(&self, processes: NonZeroU32) {
        self.pair.processes.store(processes.get(), Ordering::Relaxed);
    }

    /// Returns a fallback whose limiter in memory enforces the share for so many processes already.
    fn of(store: Arc<L>, local: Arc<M>, processes: Arc<AtomicU32>, number: u32) -> Self {
        let current = (number, Arc::clone(&local) as _);
        let pair = Pair::new(Arc::clone(&store) as _, processes, current);
        Self { store, local, pair }
    }

    /// Returns a fallback with handles on both limiters, or siblings of both. `local` makes the one in memory for its share
    /// of `policy`.
    fn beside<N: Limiter + 'static, O: Limiter + 'static>(
        &self,
        store: N,
        policy: &Policy,
        local: impl FnOnce(&Policy) -> Result<O, Error>,
    ) -> Result<Arc<Fallback<N, O>>, Error> {
        let processes = Arc::clone(&self.pair.processes);
        let number = processes.load(Ordering::Relaxed);
        let local = local(&share(policy, number)?)?;
        Ok(Arc::new(Fallback::of(Arc::new(store), Arc::new(local), processes, number)))
    }

    /// Asks the store, and then charges the limiter in memory by `follow`, or asks it if the store fails.
    fn reserve_by(
        &self,
        key: &Key<'_>,
        ask: impl Fn(&dyn Limiter, &Key<'_>) -> LimiterFuture<Reservation> + Send + 'static,
        follow: Follow,
    ) -> LimiterFuture<Reservation> {
        self.pair.reserved(key, ask(&*self.pair.store, key), ask, follow)
    }
}

impl<L: Limiter + 'static, M: Limiter + 'static> Store for Fallback<L, M> {
    fn id(&self) -> LimiterId {
        self.store.id()
    }

    /// What all types of fallbacks have in common.
    fn as_any(&self) -> &dyn Any {
        &*self.pair
    }

    fn shard(&self, key: &Key<'_>) -> u64 {
        self.store.shard(key)
    }

    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        self.store.preview(key, cost)
    }

    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        Some(list::decide_all(&*self.store, demands, is_part))
    }
}

impl<L: Limiter + 'static, M: Limiter + 'static> Limiter for Fallback<L, M> {
    fn policy(&self) -> &Policy {
        self.store.policy()
    }

    fn store(&self) -> &'static str {
        self.store.store()
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        let checked = self.store.check_n(key, cost);
        let mut follows = None;
        if let Some(Ok(decision)) = checked.as_ready() {
            // A cached denial, for example: nothing is charged.
            if !decision.is_admitted() {
                return checked;
            }
            // By a lease, for example. In memory this is ready, too.
            let follow = self.pair.follow(key, cost);
            if follow.as_ready().is_some() {
                return checked;
            }
            follows = Some(follow);
        }
        let (pair, key) = self.pair.owned(key);
        LimiterFuture::pending(async move {
            match checked.await {
                Ok(decision) => {
                    if decision.is_admitted() {
                        drop(follows.unwrap_or_else(|| pair.follow(&key, cost)).await);
                    }
                    Ok(decision)
                }
                Err(error) => {
                    pair.ask_local(error, |it| it.check_n(&key, cost)).await.map(as_local)
                }
            }
        })
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        let peeked = self.store.peek(key);
        let (pair, key) = self.pair.owned(key);
        LimiterFuture::pending(async move {
            match peeked.await {
                Err(error) => pair.ask_local(error, |it| it.peek(&key)).await,
                usage => usage,
            }
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        let ask = move |limiter: &dyn Limiter, key: &Key<'_>| limiter.reserve(key, cost, within);
        self.reserve_by(key, ask, <dyn Limiter>::take_up_to)
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        let ask = move |limiter: &dyn Limiter, key: &Key<'_>| limiter.take_up_to(key, most);
        self.reserve_by(key, ask, <dyn Limiter>::take_up_to)
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        let ask = move |limiter: &dyn Limiter, key: &Key<'_>| limiter.charge(key, cost);
        self.reserve_by(key, ask, <dyn Limiter>::charge)
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        self.pair.refund(receipt)
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let (local, store) = (self.pair.local().reset(key), self.store.reset(key));
        LimiterFuture::pending(async move {
            drop(local.await);
            store.await
        })
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        if policy == self.policy() {
            // The limiter in memory may have another one.
            return Ok(Arc::new(self.clone()));
        }
        let store = self.store.with_policy(policy)?;
        Ok(self.beside(store, policy, |share| self.local.with_policy(share))?)
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        let store = self.store.sibling(policy)?;
        Ok(self.beside(store, policy, |share| self.local.sibling(share))?)
    }

    fn sibling_with_capacity(
        &self,
        policy: &Policy,
        keys: usize,
    ) -> Result<Arc<dyn Limiter>, Error> {
        let store = self.store.sibling_with_capacity(policy, keys)?;
        let local = |share: &Policy| self.local.sibling_with_capacity(share, keys);
        Ok(self.beside(store, policy, local)?)
    }
}

impl<L: WaitingLimiter + 'static, M: WaitingLimiter + 'static> WaitingLimiter for Fallback<L, M> {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        let acquired = self.store.acquire(key, cost, within);
        let waiting = Arc::clone(&self.local);
        let ask = move |local: &dyn Limiter, key: &Key<'_>| {
            let handle = waiting.waiting_with_policy(local.policy());
            let failed = |error| LimiterFuture::ready(Err(error));
            handle.map_or_else(failed, |local| local.acquire(key, cost, within))
        };
        self.pair.reserved(key, acquired, ask, <dyn Limiter>::take_up_to)
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        if policy == self.policy() {
            return Ok(Arc::new(self.clone()));
        }
        let store = self.store.waiting_with_policy(policy)?;
        let local = |share: &Policy| self.local.waiting_with_policy(share);
        Ok(self.beside(store, policy, local)?)
    }
}

/// Clones are handles on the same limiters.
impl<L, M> Clone for Fallback<L, M> {
    fn clone(&self) -> Self {
        let (store, local) = (Arc::clone(&self.store), Arc::clone(&self.local));
        Self { store, local, pair: Arc::clone(&self.pair) }
    }
}

impl<L, M> fmt::Debug for Fallback<L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("store", &self.pair.store.store())
            .field("policy", self.pair.store.policy())
            .field("local", self.pair.local().policy())
            .finish_non_exhaustive()
    }
}
