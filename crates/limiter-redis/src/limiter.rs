//! The limiter for many processes.

use std::{fmt, sync::Arc, time::Duration};

use limiter_core::{Error, ErrorKind, Policy};

use crate::{
    client::ScriptClient,
    connection::Connection,
    counters::Counters,
    denials::Denials,
    events::Event,
    failure::FailurePolicy,
    scripts::PRELUDE,
    shared::{Settings, Shared},
};

/// A limiter whose state lives in Redis or Valkey, shared by all processes that use the same
/// server, prefix and policy name.
///
/// It is the exact algorithm of the limiter in memory, in microseconds of the server's clock. Each
/// operation is one round trip. A key holds one value with an expiry, gone once the key has
/// recovered. Clones are one limiter, which is also a [`Limiter`](limiter_core::Limiter) and a
/// [`WaitingLimiter`](limiter_core::WaitingLimiter).
///
/// Errors have the kinds [`ErrorKind::Unavailable`] (nothing was charged),
/// [`ErrorKind::Undetermined`] (it may have been) and [`ErrorKind::Unexpected`] (a foreign value at
/// the key, or a bug). Answers are awaited on a Tokio runtime.
///
/// A key that was refused is not asked for again before its wait is over, up to a second: the
/// refusal is remembered in this process. See [`with_denial_cache`](Self::with_denial_cache).
pub struct RedisLimiter<C = Connection> {
    pub(crate) shared: Arc<Shared<C>>,
    /// Zero is the policy itself.
    pub(crate) tier: usize,
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// How long an answer may take unless [`RedisLimiter::with_deadline`] says otherwise.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// The prefix of all keys unless [`RedisLimiter::with_prefix`] says otherwise.
    pub const DEFAULT_PREFIX: &str = "limiter";

    /// How many refusals are remembered unless [`RedisLimiter::with_denial_cache`] says otherwise.
    pub const DEFAULT_DENIALS: usize = Denials::DEFAULT_CAPACITY;

    const MAX_DEADLINE: Duration = Duration::from_secs(60);

    /// Returns a limiter that applies `policy` by the server of `client`.
    ///
    /// Nothing is sent until the first check.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if a quota can't be counted in microseconds and doubles: see
    /// [`Meter::new`](limiter_core::algorithm::Meter::new). A sliding counter counts up to
    /// 94,906,265 permits, sub-windows and a log up to 2^39, GCRA by a rate that does not divide fewer
    /// than 2^48, all others up to 2^52.
    ///
    /// [`ErrorKind::InvalidSetting`] if one of several limits, or one with tiers, has sub-windows of
    /// more than 128 slots or a log of more than 128 permits.
    pub fn new(client: C, policy: Policy) -> Result<Self, Error> {
        let settings = Settings {
            client,
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            deadline: Self::DEFAULT_DEADLINE,
            failure_policy: FailurePolicy::default(),
            denials: Self::DEFAULT_DENIALS,
            observer: None,
            prelude: PRELUDE.to_owned(),
        };
        Ok(Self { shared: Arc::new(Shared::new(settings, policy)?), tier: 0 })
    }

    /// Returns the limiter with other settings, and nothing remembered.
    fn with(self, change: impl FnOnce(&mut Settings<C>)) -> Result<Self, Error> {
        let mut settings = self.shared.settings.clone();
        change(&mut settings);
        let shared = Shared::new(settings, self.shared.current().policy)?;
        Ok(Self { shared: Arc::new(shared), tier: self.tier })
    }

    /// Sets how long an answer may take.
    ///
    /// An answer that takes longer than half of that counts as slow: when most are, the store is
    /// left alone for a moment, as when it fails.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it is 1 ms to 60 s.
    pub fn with_deadline(self, deadline: Duration) -> Result<Self, Error> {
        if !(Duration::from_millis(1)..=Self::MAX_DEADLINE).contains(&deadline) {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("a deadline of {deadline:?}: use 1ms to {:?}", Self::MAX_DEADLINE),
            ));
        }
        self.with(|settings| settings.deadline = deadline)
    }

    /// Sets what the names of all keys begin with.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it has 1 to 64 bytes.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, Error> {
        self.with(|settings| prefix.clone_into(&mut settings.prefix))
    }

    /// Sets what is decided while the store can't decide: unless it is set, errors are returned.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), limiter_core::Error> {
    /// use std::num::NonZeroU32;
    /// use limiter_core::{Policy, Quota};
    /// use limiter_redis::{FailurePolicy, RedisLimiter, connect};
    ///
    /// let policy = Policy::gcra("api", Quota::per_second(100)?)?;
    /// let limiter = RedisLimiter::new(connect("redis://127.0.0.1").await?, policy)?;
    /// let limiter = limiter
    ///     .with_failure_policy(FailurePolicy::Local { processes: NonZeroU32::new(4).unwrap() })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// None at present: every policy can be divided and held in memory.
    pub fn with_failure_policy(self, failure_policy: FailurePolicy) -> Result<Self, Error> {
        self.with(|settings| settings.failure_policy = failure_policy)
    }

    /// Sets how many refusals are remembered at most: with 0, none is.
    ///
    /// A refusal tells how long to wait, and nothing that others take can make that shorter. So the
    /// same cost, or a larger one, is refused without asking the server until then, for a second at
    /// most; what a refund, a reset or another policy by another process changes is seen after that.
    /// For a larger cost the wait that is told may be too short.
    ///
    /// A refusal takes about 200 bytes, as they are needed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if it is more than 16,777,216.
    pub fn with_denial_cache(self, refusals: usize) -> Result<Self, Error> {
        if refusals > Denials::MAX_CAPACITY {
            let most = Denials::MAX_CAPACITY;
            let message = format!("a denial cache for {refusals} refusals: use {most} at most");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        self.with(|settings| settings.denials = refusals)
    }

    /// Sets who is told of what an operator may want to count or be told of, such as outages.
    ///
    /// It is called by the thread that meets with the event, and must not block.
    ///
    /// ```no_run
    /// # fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// let limiter = limiter.with_observer(|event| println!("{}", event.name()))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// None.
    pub fn with_observer(
        self,
        observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        self.with(|settings| settings.observer = Some(Arc::new(observer)))
    }

    /// Returns what was counted in this process since the limiter was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.events.counters()
    }

    /// Replaces the prelude, by one that tells another time.
    #[cfg(test)]
    pub(crate) fn with_prelude(self, prelude: &str) -> Self {
        self.with(|settings| prelude.clone_into(&mut settings.prelude)).unwrap()
    }
}

impl<C> Clone for RedisLimiter<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), tier: self.tier }
    }
}

impl<C: ScriptClient + fmt::Debug> fmt::Debug for RedisLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { client, prefix, deadline, failure_policy, .. } = &self.shared.settings;
        f.debug_struct("RedisLimiter")
            .field("policy", &self.shared.policy(0))
            .field("tier", &self.tier)
            .field("client", client)
            .field("prefix", prefix)
            .field("deadline", deadline)
            .field("failure_policy", failure_policy)
            .finish_non_exhaustive()
    }
}
