//! How a limiter of requests in flight is built: by a builder of its own, whose settings mean something else for a table
//! that grows and for keys without a policy.

use std::{hash::BuildHasher, sync::Arc};

use super::{
    InFlight, Inner,
    shard::{Shard, Shared},
};
use crate::{
    Builder, Clock, Error, LimiterId, SystemClock,
    in_flight::check_in_flight,
    memory::{KeyHasher, check_capacity},
    sync::{AtomicU32, Bounded},
};

/// How many locks there are at most.
const SHARDS: usize = 64;

/// The capacity from which a shard may keep a place without a key: where those are less than one in a hundred.
const SPARE_FROM: usize = 100 * SHARDS;

/// The settings of an [`InFlight`], fixed before it exists.
///
/// ```
/// use limiter_core::InFlight;
///
/// let uploads = InFlight::builder("uploads", 3).capacity(10_000).max_waiting(500).build()?;
/// assert!(uploads.try_enter("alice").is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct InFlightBuilder<C = SystemClock> {
    name: String,
    limit: u32,
    capacity: usize,
    max_waiting: usize,
    hasher: KeyHasher,
    clock: C,
}

impl InFlightBuilder {
    /// The capacity unless [`capacity`](Self::capacity) sets another: 100,000 keys.
    pub const DEFAULT_CAPACITY: usize = Builder::DEFAULT_CAPACITY;

    /// The largest capacity: 268,435,456 keys.
    pub const MAX_CAPACITY: usize = Builder::MAX_CAPACITY;

    /// The most waiters unless [`max_waiting`](Self::max_waiting) sets another number: 10,000.
    pub const DEFAULT_MAX_WAITING: usize = Builder::DEFAULT_MAX_WAITING;
}

impl InFlight {
    /// Returns a limiter that lets up to `limit` requests of a key in at once, with room for 100,000 keys.
    ///
    /// # Errors
    ///
    /// Those of [`InFlightBuilder::build`].
    pub fn new(name: &str, limit: u32) -> Result<Self, Error> {
        Self::builder(name, limit).build()
    }

    /// Returns the settings of a limiter, to be changed and built.
    pub fn builder(name: &str, limit: u32) -> InFlightBuilder {
        InFlightBuilder {
            name: name.to_owned(),
            limit,
            capacity: InFlightBuilder::DEFAULT_CAPACITY,
            max_waiting: InFlightBuilder::DEFAULT_MAX_WAITING,
            hasher: KeyHasher::default(),
            clock: SystemClock::new(),
        }
    }
}

impl<C: Clock> InFlightBuilder<C> {
    /// Sets how many keys can hold permits at the same time. The default is 100,000.
    ///
    /// Memory is allocated as keys arrive, about 50 bytes a key, and freed when they hold no permit. A key that holds
    /// none has no place in the table. While the table is full, other keys are refused, with the source
    /// [`Source::FullTable`](crate::Source::FullTable). From a capacity of 6,400, that begins up to 64 keys early,
    /// because parts of the table keep a place each for the next key.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Sets how many calls of [`acquire`](InFlight::acquire) can wait at the same time, for all keys together. The
    /// default is 10,000. Further ones are refused at once, and with zero nothing waits.
    pub fn max_waiting(self, waiters: usize) -> Self {
        Self { max_waiting: waiters, ..self }
    }

    /// Sets the hasher of keys. The default is foldhash: see [`Builder::hasher`].
    pub fn hasher(self, hasher: impl BuildHasher + Send + Sync + 'static) -> Self {
        Self { hasher: KeyHasher::given(hasher), ..self }
    }

    /// Sets the clock by which waits end.
    pub fn clock<D: Clock>(self, clock: D) -> InFlightBuilder<D> {
        let Self { name, limit, capacity, max_waiting, hasher, .. } = self;
        InFlightBuilder { name, limit, capacity, max_waiting, hasher, clock }
    }

    /// Returns the limiter.
    ///
    /// # Errors
    ///
    /// Those of [`check_in_flight`], and [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the capacity
    /// is not from 1 to [`MAX_CAPACITY`](InFlightBuilder::MAX_CAPACITY).
    pub fn build(self) -> Result<InFlight<C>, Error> {
        check_in_flight(&self.name, self.limit)?;
        check_capacity(self.capacity)?;
        let Self { name, limit, capacity, max_waiting, hasher, clock } = self;
        let shared = Arc::new(Shared {
            limit: AtomicU32::new(limit),
            keys: Bounded::new(capacity),
            spare_places: usize::from(capacity >= SPARE_FROM),
            waiting: Bounded::new(max_waiting),
        });
        let shards = (0..capacity.min(SHARDS)).map(|_| Arc::new(Shard::new(Arc::clone(&shared))));
        Ok(InFlight(Arc::new(Inner {
            name,
            id: LimiterId::new(),
            hasher,
            shards: shards.collect(),
            shared,
            clock: Arc::new(clock),
        })))
    }
}
