//! How many requests of a key are in flight at once, in all processes that share a store.
//!
//! A permit is a member of the key's sorted set, by its deadline. A request takes its permit ([`enter`]), and gives it back when it has ended ([`leaves`]). One that takes longer is renewed ([`renewal`]). The
//! [`table`] holds what this process has. A permit that could not be renewed is lost ([`permit`]): its holder knows
//! that by its own clock before the server gives its place to another one.

pub(crate) mod builder;
pub(crate) mod enter;
mod full;
mod leaves;
mod permit;
mod permit_state;
pub(crate) mod permits_call;
mod renewal;
mod shared;
mod table;

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use limiter_core::{
    Entry, Error, InFlightLimiter, Key, LimiterFuture, LimiterId, Occupancy, check_in_flight,
};

use self::{
    enter::{Enter, Enters},
    shared::Shared,
};
use crate::{
    call::refund::Reset,
    client::{ScriptClient, connection::Connection},
    counters::Counters,
};

/// Limits how many requests of a key are in flight at once, in all processes that use the same server, prefix and name.
///
/// A request costs two calls: one when it enters, and one when its permit is dropped, which nobody waits for. One that is
/// refused costs one call. Until a permit of this process comes back, for at most 100 ms, others of the key are refused
/// without a call. A permit that is held for longer than a third of its
/// [expiry](crate::RedisInFlightBuilder::expires_after) is renewed, in calls of up to 200 permits, which are sent one after the
/// other to each node; in a cluster a call has one key.
///
/// A permit is [lost](limiter_core::InFlightPermit::is_lost) if the store can't be reached for two thirds of the
/// expiry, or if the process was stopped for nearly all of it, because another request may then have its place. No more
/// requests than the limit hold permits that are not lost, whatever is delayed or stopped. If the server loses its data,
/// up to twice the limit do, once, until the permits are renewed.
///
/// ```no_run
/// use limiter_redis::RedisInFlight;
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let uploads = RedisInFlight::builder("uploads", 3).connect("redis://127.0.0.1:6379").await?;
///
/// let entry = uploads.enter("alice").await?;
/// if !entry.is_admitted() {
///     println!("alice uploads {} files already", entry.occupancy().held());
/// }
/// let permit = entry.into_permit();
/// // Upload, and then:
/// drop(permit);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The answers' errors have the kinds [`Unavailable`](limiter_core::ErrorKind::Unavailable) (no permit was taken),
/// [`Undetermined`](limiter_core::ErrorKind::Undetermined) (one may have been taken, and is given back) and
/// [`Unexpected`](limiter_core::ErrorKind::Unexpected) (for example because of a foreign value at the key). With a
/// [share](crate::RedisInFlightBuilder::local_share), this process decides in their place.
pub struct RedisInFlight<C: ScriptClient = Connection> {
    shared: Arc<Shared<C>>,
    enters: Enters<C>,
}

impl<C: ScriptClient> RedisInFlight<C> {
    /// Returns the name, which finds the states in the store.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.events().1
    }

    /// Returns the limiter's own limit.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.shared.limit.load(Relaxed)
    }

    /// Sets the limiter's own limit for all handles in this process: see [`InFlightLimiter::set_limit`].
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if `limit` is zero.
    pub fn set_limit(&self, limit: u32) -> Result<(), Error> {
        check_in_flight(self.name(), limit)?;
        self.shared.limit.store(limit, Relaxed);
        Ok(())
    }

    /// Sets how many processes share the store, for this process's
    /// [share](crate::RedisInFlightBuilder::local_share). Does nothing if the limiter has none.
    pub fn set_processes(&self, processes: NonZeroU32) {
        if let Some(current) = &self.shared.processes {
            current.store(processes.get(), Relaxed);
        }
    }

    /// Returns how long a permit lasts in the store without renewal.
    #[must_use]
    pub fn expiry(&self) -> Duration {
        self.shared.expiry.0
    }

    /// Returns how many permits are held through this limiter in this process, those included that are lost.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.shared.table.held()
    }

    /// Returns what the limiter and its clones have counted in this process: `admitted` and `refused` are entries.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.events().0.tally.read()
    }

    /// Returns the store's key of `key`, as `SCAN` and `redis-cli` show it: `limiter:{salice}:uploads:inflight`.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if `key` is a secret, and the limiter was built without
    /// [a secret](crate::RedisInFlightBuilder::key_secret) to key its digest with.
    pub fn stored_key<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<u8>, Error> {
        self.shared.keys.of(&key.into()).map(Vec::from)
    }

    /// Takes a permit of `key` if fewer than the limiter's own limit are held: see [`InFlightLimiter::enter`].
    ///
    /// If the future is dropped early, a permit that was taken meanwhile is given back.
    pub fn enter<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<Entry> {
        InFlightLimiter::enter(self, &key.into(), self.limit())
    }

    /// Takes a permit of `key` if fewer than `limit` are held, such as that of a customer's plan.
    pub fn enter_under<'a>(&self, key: impl Into<Key<'a>>, limit: u32) -> LimiterFuture<Entry> {
        InFlightLimiter::enter(self, &key.into(), limit)
    }

    /// Returns how many permits of `key` are held, under the limiter's own limit: see [`InFlightLimiter::peek`].
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<Occupancy> {
        InFlightLimiter::peek(self, &key.into(), self.limit())
    }

    /// Forgets the permits of `key`: see [`InFlightLimiter::reset`]. Permits that are held for long are added again
    /// when they are renewed.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) -> LimiterFuture<()> {
        InFlightLimiter::reset(self, &key.into())
    }

    /// Waits until no operation of this limiter is under way, for `within` at most: for the end of a program, so that
    /// permits that were dropped are given back.
    ///
    /// # Errors
    ///
    /// [`Undetermined`](limiter_core::ErrorKind::Undetermined) if operations are under way after that time.
    pub async fn drain(&self, within: Duration) -> Result<(), Error> {
        self.shared.sender.ended(within).await
    }
}

impl<C: ScriptClient> InFlightLimiter for RedisInFlight<C> {
    fn name(&self) -> &str {
        self.shared.events().1
    }

    fn limit(&self) -> u32 {
        Self::limit(self)
    }

    fn set_limit(&self, limit: u32) -> Result<(), Error> {
        Self::set_limit(self, limit)
    }

    fn id(&self) -> LimiterId {
        self.shared.id
    }

    fn store(&self) -> &'static str {
        "redis"
    }

    fn enter(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Entry> {
        let Self { shared, enters } = self.clone();
        match shared.keys.of(key) {
            Ok(key) => {
                LimiterFuture::pending(async move { shared.enter(enters, key, limit).await })
            }
            Err(error) => LimiterFuture::ready(Err(error)),
        }
    }

    fn peek(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Occupancy> {
        let (Self { shared, enters }, key) = (self.clone(), self.shared.keys.of(key));
        LimiterFuture::pending(async move {
            let key = key?;
            let asking = Enter::asking(&shared, key.clone(), limit);
            match shared.sender.operate_with_others(&enters, shared.events().1, asking).await {
                Ok((held, _)) => Ok(Occupancy::new(held, limit)),
                Err(error) => shared.peek_without_store(&key, limit, error),
            }
        })
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let (shared, key) = (Arc::clone(&self.shared), self.shared.keys.of(key));
        LimiterFuture::pending(async move {
            let (key, of_end) = (key?, Arc::clone(&shared));
            let (forgotten, keys) = (key.clone(), vec![key.clone()]);
            let ends = move || of_end.full.comes_back(&forgotten);
            let reset = Reset { events: Arc::clone(shared.events().0), key, keys, ends };
            let outcome = shared.sender.operate(shared.events().1, reset).await;
            outcome.map_err(|error| shared.named(error))
        })
    }
}

impl<C: ScriptClient> Clone for RedisInFlight<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), enters: Arc::clone(&self.enters) }
    }
}

impl<C: ScriptClient + fmt::Debug> fmt::Debug for RedisInFlight<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisInFlight")
            .field("name", &self.name())
            .field("limit", &self.limit())
            .field("client", &self.shared.sender.client)
            .field("settings", &self.shared.sender.settings)
            .finish_non_exhaustive()
    }
}
