//! The limiter, and its operations with their documentation.

use std::{fmt, sync::Arc, time::Duration};

use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, LimiterId, Policy, Receipt,
    Reservation, Usage, WaitingLimiter,
};

use crate::{
    call::sender::Sender,
    client::{ScriptClient, circuit_breaker::CircuitBreaker, connection::Connection},
    context::{Context, Plans, Settings},
    counters::Counters,
    denials::Denials,
    keys::Keys,
    lease::Leases,
    same_names,
    scripts::Plan,
};

/// A limiter whose states live in Redis or Valkey, shared by all processes that use the same server,
/// prefix and policy name.
///
/// Each operation is one script call on the subject's hash and the lists of its logs, by the server's clock. A key has an
/// expiry, after which it has fully recovered. A clone is cheap and is the same limiter, and so is a
/// handle under another policy: see [`with_policy`](Self::with_policy).
///
/// Answers can be awaited on any runtime, and [waited](LimiterFuture::wait) for on a thread without one. A call that
/// was sent outlives its caller: if the answer is dropped early, the call may still be executed.
///
/// A denial is cached in this process until its wait is over, up to a second: see
/// [`Builder::denial_cache`](crate::Builder::denial_cache).
///
/// # Errors
///
/// The answers' errors have the kinds [`Unavailable`](limiter_core::ErrorKind::Unavailable) (nothing
/// was charged), [`Undetermined`](limiter_core::ErrorKind::Undetermined) (it may have been charged) and
/// [`Unexpected`](limiter_core::ErrorKind::Unexpected) (the server replied with an error that this
/// library does not know, for example because of a foreign value at the key). With a
/// [`Fallback`](limiter_core::Fallback), this process decides checks and reservations in their place.
pub struct RedisLimiter<C: ScriptClient = Connection> {
    pub(crate) sender: Arc<Sender<C>>,
    pub(crate) context: Arc<Context>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) leases: Option<Arc<Leases<C>>>,
}

impl<C: ScriptClient> RedisLimiter<C> {
    pub(crate) fn new(
        on: (C, CircuitBreaker),
        id: LimiterId,
        settings: Arc<Settings>,
        policy: Policy,
    ) -> Result<Self, Error> {
        let sender = Sender::new(on, Arc::clone(&settings), policy.name());
        let context = Arc::new(Context {
            id,
            keys: Keys::new(&settings.prefix, policy.name(), settings.secret())?,
            denials: Denials::new(settings.denials, settings.hasher()),
            plans: Plans::default(),
            events: Arc::clone(&sender.events),
            settings,
            policy,
        });
        let plan = context.plan(&context.policy)?;
        if let Some(store) = sender.client.store() {
            same_names::note(&store, &context);
        }
        let leases = context.settings.lease.then(|| Arc::new(Leases::new(&sender, &context)));
        Ok(Self { sender, context, plan, leases })
    }

    /// Returns a handle on the same states that enforces `policy`: for tiers, for quotas of single
    /// customers, and for reloads. Keys keep what they have used if the span is the same: the time in which a burst
    /// recovers, or the length of a window.
    ///
    /// The handle shares the connection, the settings, the circuit breaker and the counters. The
    /// limiter's own policy name finds the states; decisions carry the handle's policy. It is cheap
    /// enough for a call per request: requests of equal policies at the same moment share a handle.
    ///
    /// ```no_run
    /// # fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::{Policy, Quota};
    ///
    /// let premium = limiter.with_policy(&Policy::gcra("premium", Quota::per_second(1_000)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the [families](Policy::families) of the policies differ, or the names of several limits.
    pub fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        Ok(Self { plan: self.context.plan(policy)?, ..self.clone() })
    }

    /// Returns another limiter of `policy`, with the client and the settings of this one. The policy may have another
    /// algorithm, and its name finds the states. See [`Limiter::sibling`].
    ///
    /// It has its own caches and counters.
    ///
    /// ```no_run
    /// # fn example(users: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::{Policy, Quota};
    ///
    /// let tenants = users.sibling(&Policy::sliding_log("tenant", Quota::per_hour(1_000)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `policy` has the name of this limiter's, because both would have the same states: use
    /// another name, or [`with_policy`](Self::with_policy).
    pub fn sibling(&self, policy: &Policy) -> Result<Self, Error> {
        let Context { id, settings, policy: own, .. } = &*self.context;
        if policy.name() == own.name() {
            let message = format!(
                "invalid sibling {:?} of the limiter {:?}: both have the same states; use another name, or with_policy",
                policy.name(),
                own.name()
            );
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let on = (self.sender.client.clone(), self.sender.breaker.clone());
        Self::new(on, id.sibling(), Arc::clone(settings), policy.clone())
    }

    /// Returns the policy that this handle enforces.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.plan.policy
    }

    /// Returns how long leases of this policy last; `None` if each check is a call: see [`Builder::lease`](crate::Builder::lease).
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.plan.lease.map(|terms| terms.length)
    }

    /// Returns the store's keys of `key`, as `SCAN` and `redis-cli` show them: a hash, unless all limits of the policy are
    /// logs, and then a list for each log.
    ///
    /// ```no_run
    /// # fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// assert_eq!(limiter.stored_keys("alice")?, [b"limiter:{salice}:api"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `key` is a secret, and the limiter was built without
    /// [`Builder::key_secret`](crate::Builder::key_secret).
    pub fn stored_keys<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        self.plan.add_keys(&self.context.keys.of(&key.into())?, &mut all);
        Ok(all.into_iter().map(Vec::from).collect())
    }

    /// Returns what the limiter and its handles have counted in this process.
    #[must_use]
    pub fn counters(&self) -> Counters {
        if let Some(leases) = &self.leases {
            leases.sweep();
        }
        self.context.events.tally.read()
    }

    /// Charges one permit to `key` if it fits now: see [`Limiter::check`].
    pub fn check<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<Decision> {
        Limiter::check_n(self, &key.into(), Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now: see [`Limiter::check_n`].
    pub fn check_n<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> LimiterFuture<Decision> {
        Limiter::check_n(self, &key.into(), cost)
    }

    /// Returns how far the permits of `key` are used up, and charges nothing: see [`Limiter::peek`].
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<Usage> {
        Limiter::peek(self, &key.into())
    }

    /// Charges `cost` to `key` if it fits now or up to `within` later, at most the policy's horizon: see
    /// [`Limiter::reserve`].
    pub fn reserve<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Duration,
    ) -> LimiterFuture<Reservation> {
        Limiter::reserve(self, &key.into(), cost, within)
    }

    /// Charges `cost` to `key` as soon as it fits, up to `within` from now if that is given: see
    /// [`WaitingLimiter::acquire`].
    ///
    /// The server decides the order among all processes: a waiter sends one call and sleeps until its
    /// permits are due, which is at most the policy's horizon. Behind another quota's debt it is refused,
    /// as [`reserve`](Self::reserve) is. A waiter that leaves gives its permits
    /// back to later requests; those behind it keep the times that they were given.
    ///
    /// ```no_run
    /// # async fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::Cost;
    ///
    /// let reservation = limiter.acquire("alice", Cost::ONE, None).await?;
    /// assert!(reservation.is_admitted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        WaitingLimiter::acquire(self, &key.into(), cost, within)
    }

    /// Charges as many permits as fit now, at most `most`, and returns how many: see [`Limiter::take_up_to`].
    ///
    /// The store decides, also while permits of `key` are leased; a cached denial of one permit refuses without
    /// a call.
    pub fn take_up_to<'a>(
        &self,
        key: impl Into<Key<'a>>,
        most: Cost,
    ) -> LimiterFuture<Reservation> {
        Limiter::take_up_to(self, &key.into(), most)
    }

    /// Charges `cost` whether or not it fits, for work that has been done, and returns how many permits were
    /// charged: see [`Limiter::charge`].
    ///
    /// It always calls the store. Permits that processes have leased before can still be spent.
    pub fn charge<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> LimiterFuture<Reservation> {
        Limiter::charge(self, &key.into(), cost)
    }

    /// Gives back the permits of `receipt` as far as they still count, and returns how many came back:
    /// see [`Limiter::refund`].
    pub fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        Limiter::refund(self, receipt)
    }

    /// Makes `key` fresh under every policy of this limiter: see [`Limiter::reset`]. Logs of policies that only other processes
    /// use stay.
    ///
    /// This limiter gives up what it has leased of the key, and its permits are lost. Another process spends what it
    /// holds until its leases end, at most a second later, so the key may get its bound once more for each reset.
    /// Denials that other processes have cached last for at most a second, too.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<()> {
        Limiter::reset(self, &key.into())
    }
}

impl<C: ScriptClient> Clone for RedisLimiter<C> {
    fn clone(&self) -> Self {
        let Self { sender, context, plan, leases } = self;
        let (sender, context) = (Arc::clone(sender), Arc::clone(context));
        Self { sender, context, plan: Arc::clone(plan), leases: leases.clone() }
    }
}

impl<C: ScriptClient + fmt::Debug> fmt::Debug for RedisLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("policy", &self.plan.policy)
            .field("client", &self.sender.client)
            .field("settings", &self.context.settings)
            .finish_non_exhaustive()
    }
}
