//! The settings of a limiter of requests in flight, which, but for its limit, are fixed before it exists.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use limiter_core::{Clock, Error, LimiterId, check_in_flight};

use super::{RedisInFlight, permit_state::Expiry, shared::Shared};
use crate::{
    call::sender::Sender,
    client::{
        ScriptClient,
        circuit_breaker::CircuitBreaker,
        connection::{Connection, connect},
        credentials::Hidden,
    },
    context::{Settings, random_hasher, seeded_hasher},
    events::Event,
    limiter::RedisLimiter,
};

/// Builds a [`RedisInFlight`]. Ends with [`connect`](Self::connect), or with [`build_on`](Self::build_on) for a client
/// that the program has.
///
/// ```no_run
/// use std::{num::NonZeroU32, time::Duration};
/// use limiter_redis::RedisInFlight;
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let uploads = RedisInFlight::builder("uploads", 3)
///     .expires_after(Duration::from_secs(10))
///     .local_share(NonZeroU32::new(4).unwrap())
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `connect` or `build_on` is called"]
pub struct RedisInFlightBuilder {
    name: String,
    limit: u32,
    expiry: Expiry,
    settings: Settings,
}

impl RedisInFlight {
    /// Returns a builder of a limiter with this name, which finds its states in the store, and its own limit.
    pub fn builder(name: &str, limit: u32) -> RedisInFlightBuilder {
        RedisInFlightBuilder::new(name, limit, Settings::default())
    }
}

impl RedisInFlightBuilder {
    /// For how long a permit lasts in the store without renewal, by default.
    pub const DEFAULT_EXPIRY: Duration = Expiry::DEFAULT.0;

    pub(crate) fn new(name: &str, limit: u32, settings: Settings) -> Self {
        Self { name: name.to_owned(), limit, expiry: Expiry::DEFAULT, settings }
    }

    /// Sets for how long a permit lasts in the store without renewal: from 100 ms to 1 h, 30 s by default.
    ///
    /// A permit that is held for longer than a third of it is renewed. The permits of a process that was killed count
    /// for as long. A permit is lost, about when it expires, if the store can't be reached for two thirds of it.
    pub fn expires_after(mut self, expiry: Duration) -> Self {
        self.expiry = Expiry(expiry);
        self
    }

    /// Sets how long an answer may take: from 1 ms to a third of the [expiry](Self::expires_after), 50 ms by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets what all keys begin with: from 1 to 64 bytes, `limiter` by default.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.settings.prefix);
        self
    }

    /// Sets the secret that keys the digests of secret subjects: see
    /// [`Builder::key_secret`](crate::Builder::key_secret).
    pub fn key_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.settings.key_secret = Some(Hidden(secret.into()));
        self
    }

    /// Lets this process decide in memory while the store can't, by its share of the limit: the limit divided by the
    /// number of `processes`, rounded down, and one at least. By default the error is returned.
    /// An outage is logged once with its cause, at WARN, and its end at INFO.
    ///
    /// Permits that this process has from the store count, too. A peek is decided in the same way.
    pub fn local_share(mut self, processes: NonZeroU32) -> Self {
        self.settings.local_share = Some(processes);
        self
    }

    /// Sets the observer that receives operational events: see [`Builder::observer`](crate::Builder::observer).
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.settings.observer = Some(Hidden(Arc::new(observer)));
        self
    }

    /// Sets the clock of this process, by which deadlines end and permits are lost: the machine's by default. It must
    /// not step back. For simulations and tests.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.clock = Hidden(Arc::new(clock));
        self
    }

    /// Sets the seed of all that is random, such as the ids of permits: a random number by default. For simulations.
    /// Each limiter of the same name needs another one, in this process and in others, because permits with the same id
    /// are one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.hasher = seeded_hasher(seed);
        self
    }

    /// Sets a random seed, so that limiters with the settings of one limiter have other ids.
    pub(crate) fn with_random_seed(mut self) -> Self {
        self.settings.hasher = random_hasher();
        self
    }

    /// Returns the limiter on the server at `url`, on a connection of its own. For several limiters, make one by
    /// [`connect`](crate::connect()), and use [`build_on`](Self::build_on) with its clones.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect()) and [`build_on`](Self::build_on). An unreachable server is not an error.
    pub async fn connect(self, url: &str) -> Result<RedisInFlight<Connection>, Error> {
        self.build_on(connect(url).await?)
    }

    /// Returns the limiter on a client: a [`Connection`] with options, which limiters may share, or another
    /// [`ScriptClient`]. Nothing is sent until the first operation.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](limiter_core::ErrorKind::InvalidName) if the name is empty, longer than 64 bytes, or has a
    /// character that is not printable ASCII. [`InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if the limit
    /// is zero, or a setting is out of its range.
    pub fn build_on<C: ScriptClient>(self, client: C) -> Result<RedisInFlight<C>, Error> {
        let breaker = self.settings.breaker_of(&client);
        self.build((client, breaker), LimiterId::new())
    }

    pub(crate) fn build<C: ScriptClient>(
        self,
        on: (C, CircuitBreaker),
        id: LimiterId,
    ) -> Result<RedisInFlight<C>, Error> {
        let Self { name, limit, expiry, settings } = self;
        check_in_flight(&name, limit)?;
        settings.check()?;
        expiry.check(settings.deadline)?;
        let enters = on.1.shared();
        let sender = Sender::new(on, settings.into(), &name);
        let shared = Arc::new(Shared::new(sender, (id, limit), expiry)?);
        Ok(RedisInFlight { shared, enters })
    }
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Returns a limiter of requests in flight with the client and the settings of this one. It has its own
    /// counters.
    ///
    /// ```no_run
    /// # fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// let uploads = limiter.in_flight("uploads", 3)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RedisInFlightBuilder::build_on`].
    pub fn in_flight(&self, name: &str, limit: u32) -> Result<RedisInFlight<C>, Error> {
        let context = &self.context;
        let builder = RedisInFlightBuilder::new(name, limit, (*context.settings).clone());
        let on = (self.sender.client.clone(), self.sender.breaker.clone());
        builder.with_random_seed().build(on, context.id.sibling())
    }
}
