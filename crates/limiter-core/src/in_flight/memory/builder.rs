//! How a limiter of requests in flight is built.

use std::{hash::BuildHasher, sync::Arc};

use super::{InFlight, Inner, SHARDS, SPARE_FROM, counts::Counts, shard::Shard};
use crate::{
    Builder, Clock, Error, ErrorKind, LimiterId, SystemClock, in_flight::check_in_flight,
    memory::KeyHasher,
};

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
    pub const DEFAULT_MAX_WAITING: usize = 10_000;

    pub(super) fn new(name: &str, limit: u32) -> Self {
        Self {
            name: name.to_owned(),
            limit,
            capacity: Self::DEFAULT_CAPACITY,
            max_waiting: Self::DEFAULT_MAX_WAITING,
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
    /// [`ErrorKind::InvalidName`] if the name is empty, longer than 64 bytes, or has a character that is not printable
    /// ASCII.
    ///
    /// [`ErrorKind::InvalidSetting`] if the limit is zero, or the capacity is not from 1 to
    /// [`MAX_CAPACITY`](InFlightBuilder::MAX_CAPACITY).
    pub fn build(self) -> Result<InFlight<C>, Error> {
        check_in_flight(&self.name, self.limit)?;
        if !(1..=InFlightBuilder::MAX_CAPACITY).contains(&self.capacity) {
            let (kind, value) = (ErrorKind::InvalidSetting, self.capacity.to_string());
            let fault = format!("use 1 to {}", InFlightBuilder::MAX_CAPACITY);
            return Err(Error::invalid(kind, "capacity", &value, fault));
        }
        let Self { name, limit, capacity, max_waiting, hasher, clock } = self;
        let spare_places = usize::from(capacity >= SPARE_FROM);
        let counts = Arc::new(Counts::new(limit, capacity, max_waiting, spare_places));
        let shards = (0..capacity.min(SHARDS)).map(|_| Arc::new(Shard::new(Arc::clone(&counts))));
        Ok(InFlight(Arc::new(Inner {
            name,
            id: LimiterId::new(),
            hasher,
            shards: shards.collect(),
            counts,
            clock: Arc::new(clock),
        })))
    }
}
