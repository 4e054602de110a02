//! The settings of a limiter, which are fixed before it exists.

use std::{fmt::Debug, ops::RangeInclusive, sync::Arc, time::Duration};

use limiter_core::{Clock, Error, ErrorKind, LimiterId, Policy, SystemClock};

use crate::{
    client::{ScriptClient, connection::connect, credentials::Hidden},
    context::{Settings, random_hasher, seeded_hasher},
    denials::Denials,
    events::Event,
    limiter::RedisLimiter,
};

/// Builds a [`RedisLimiter`]. Ends with [`Builder::connect`], or with [`Builder::build_on`] for a client that the program
/// has.
///
/// ```no_run
/// use std::time::Duration;
/// use limiter_core::{Policy, Quota};
/// use limiter_redis::RedisLimiter;
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let limiter = RedisLimiter::builder(Policy::gcra("api", Quota::per_second(100)))
///     .prefix("shop")
///     .deadline(Duration::from_millis(20))
///     .observer(|event| println!("{}: {}", event.policy(), event.name()))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `connect` or `build_on` is called"]
pub struct Builder {
    policy: Policy,
    pub(crate) settings: Settings,
}

impl RedisLimiter {
    /// Returns a builder of a limiter of `policy`.
    ///
    /// ```no_run
    /// use limiter_core::{Policy, Quota};
    /// use limiter_redis::RedisLimiter;
    ///
    /// # async fn example() -> Result<(), limiter_core::Error> {
    /// let policy = Policy::gcra("api", Quota::per_second(100));
    /// let limiter = RedisLimiter::builder(policy).connect("redis://127.0.0.1:6379").await?;
    /// if !limiter.check("alice").await?.is_admitted() {
    ///     println!("too many requests");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(policy: Policy) -> Builder {
        Builder { policy, settings: Settings::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: Builder::DEFAULT_PREFIX.to_owned(),
            key_secret: None,
            deadline: Builder::DEFAULT_DEADLINE,
            local_share: None,
            denials: 10_000,
            batching: true,
            lease: false,
            lease_keys: 10_000,
            observer: None,
            clock: Hidden(Arc::new(SystemClock::new())),
            hasher: random_hasher(),
        }
    }
}

impl Settings {
    /// Returns an error that quotes a setting if its value is out of its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        // Without `..`, so that a new setting fails to compile until its range is checked. `Keys` checks the texts.
        let &Self {
            deadline,
            denials,
            lease_keys,
            prefix: _,
            key_secret: _,
            local_share: _,
            batching: _,
            lease: _,
            observer: _,
            clock: _,
            hasher: _,
        } = self;
        let least = Duration::from_millis(1);
        in_range(deadline, least..=Builder::MAX_DEADLINE, &format!("deadline {deadline:?}"))?;
        in_range(denials, 0..=Denials::MAX_CAPACITY, &format!("denial cache of {denials}"))?;
        let keys = format!("number of {lease_keys} leased keys");
        in_range(lease_keys, 1..=Denials::MAX_CAPACITY, &keys)
    }
}

impl Builder {
    /// The default deadline.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// The default prefix.
    pub const DEFAULT_PREFIX: &str = "limiter";

    const MAX_DEADLINE: Duration = Duration::from_secs(60);

    /// Sets how long an answer may take: from 1 ms to 60 s, 50 ms by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets what all keys begin with: from 1 to 64 bytes, `limiter` by default.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.settings.prefix);
        self
    }

    /// Sets the secret that keys the digests of [secret subjects](limiter_core::Key::secret), such as
    /// API keys: from 16 to 1,024 bytes, the same in all processes that share states.
    ///
    /// A secret subject is stored as `@` and 32 hexadecimal digits, a BLAKE3 hash of 128 bits keyed with
    /// this secret. So it can't be read, and can't be guessed, from `SCAN`, `MONITOR` or a dump of the
    /// server. Under another secret, all secret subjects are fresh. Without one, which is the default,
    /// every operation on a secret subject returns an
    /// [`InvalidSetting`](ErrorKind::InvalidSetting) error.
    ///
    /// ```no_run
    /// # async fn example(builder: limiter_redis::Builder, client: limiter_redis::Connection)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use limiter_core::Key;
    ///
    /// let limiter = builder.key_secret(std::env::var("LIMITER_KEY_SECRET")?).build_on(client)?;
    /// let decision = limiter.check(Key::secret("sk-1234")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.settings.key_secret = Some(Hidden(secret.into()));
        self
    }

    /// Sets how many denials are cached at most: up to 16,777,216, 10,000 by default, and none with 0.
    ///
    /// A denial says how long a key must wait, and no charge of others can make that shorter. Until
    /// then the same cost, or a larger one, is refused without asking the server, for one second at
    /// most. A refund or a reset by another process is seen after that. A larger cost whose wait is not
    /// known is decided by the server.
    ///
    /// A denial takes about 200 bytes, which are allocated when it is cached.
    pub fn denial_cache(mut self, denials: usize) -> Self {
        self.settings.denials = denials;
        self
    }

    /// Sets whether checks that are made at the same moment are sent in one call, with those of other limiters on the
    /// connection that have the same deadline, where the client [supports it](ScriptClient::supports_batches). On by
    /// default.
    pub fn batching(mut self, batching: bool) -> Self {
        self.settings.batching = batching;
        self
    }

    /// Sets whether permits are taken from the store in bulk, in leases, and spent in memory: off by default.
    ///
    /// For keys that a process checks hundreds of times a second. All processes together stay within the limit;
    /// the price is that permits are idle for a while in a process that does not need them. A lease by GCRA lasts
    /// for a quarter of the time in which the burst recovers, a second at most; one of a fixed window, an aligned window or
    /// a sliding counter for a quarter of the window, a second at most. What a process does not spend in that time is
    /// lost to the others for as long.
    ///
    /// [`RedisLimiter::lease`] returns the length in use. A policy has no leases, and each of its checks is a call, if
    /// the length is below 25 ms, if half of it brings fewer than 8 permits, by another algorithm, and with several
    /// limits. This is not an error. Keys that are seldom checked are also checked by calls.
    pub fn lease(mut self, lease: bool) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets of how many keys permits are leased at the same time: 10,000 by default, up to 16,777,216. Checks of
    /// others are calls to the store.
    ///
    /// A key takes 16 bytes, and about 400 more while it is leased.
    pub fn lease_keys(mut self, keys: usize) -> Self {
        self.settings.lease_keys = keys;
        self
    }

    /// Sets the observer that receives operational events, such as outages.
    ///
    /// It is called with one event after the other, on a thread for blocking tasks, so that it delays no
    /// check. Up to 1,024 events wait for it; others are counted by
    /// [`unobserved`](crate::Counters::unobserved).
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.settings.observer = Some(Hidden(Arc::new(observer)));
        self
    }

    /// Sets the clock of this process, by which deadlines, leases and cached denials end: a
    /// [`SystemClock`] by default. It must not step back. For simulations and tests; limits count by the server's
    /// clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.clock = Hidden(Arc::new(clock));
        self
    }

    /// Sets the seed of the hashes of keys and of all that is random in this limiter: a random number by default. For
    /// simulations, which repeat a run. With a seed, also one that clients don't know, they can choose keys of bytes
    /// that displace others' cached denials and leases: the rest of the hasher is then fixed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.hasher = seeded_hasher(seed);
        self
    }

    /// Returns the limiter on the server at `url`, on a connection of its own. For several limiters, make one by
    /// [`connect`](crate::connect()), and use [`build_on`](Self::build_on) with its clones.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect()) and [`Builder::build_on`]. An unreachable server is not an error: until it
    /// replies, checks return errors. To insist on a server, use
    /// [`Builder::build_on`] with a connection that is [required](crate::ConnectOptions::with_required_connection).
    pub async fn connect(self, url: &str) -> Result<RedisLimiter, Error> {
        self.build_on(connect(url).await?)
    }

    /// Returns the limiter on a client: a [`Connection`](crate::Connection) with options, which limiters may share, or
    /// another [`ScriptClient`]. Nothing is sent until the first operation.
    ///
    /// If another limiter in this process has the same store and prefix, and other quotas for limits of the same names,
    /// both charge the same states. This is logged at WARN: give the policies different names, or use
    /// [`RedisLimiter::with_policy`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if a setting is out of its range.
    pub fn build_on<C: ScriptClient>(self, client: C) -> Result<RedisLimiter<C>, Error> {
        let Self { policy, settings } = self;
        settings.check()?;
        let breaker = settings.breaker_of(&client);
        RedisLimiter::new((client, breaker), LimiterId::new(), settings.into(), policy)
    }
}

/// Returns an error that quotes a setting if its value is out of its range.
pub(crate) fn in_range<T: PartialOrd + Debug>(
    value: T,
    range: RangeInclusive<T>,
    quoted: &str,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    let message = format!("invalid {quoted}: use {:?} to {:?}", range.start(), range.end());
    Err(Error::new(ErrorKind::InvalidSetting, message))
}
