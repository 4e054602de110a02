//! How a limiter in memory is built.

use std::{any::TypeId, hash::BuildHasher, sync::Arc};

use super::{
    key_hasher::KeyHasher,
    limiter::MemoryLimiter,
    tables::{OnFull, Room, Tables},
};
use crate::{Clock, Error, ErrorKind, LimiterId, Policy, SystemClock};

/// The settings of a [`MemoryLimiter`], fixed before it exists.
///
/// ```
/// use limiter_core::{ManualClock, MemoryLimiter, Policy, Quota};
///
/// let clock = ManualClock::new();
/// let policy = Policy::gcra("api", Quota::per_second(10));
/// let limiter = MemoryLimiter::builder(policy).capacity(1_000).clock(clock.clone()).build()?;
/// assert!(limiter.check("alice").is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<C = SystemClock> {
    policy: Policy,
    room: Room,
    /// Limiters with the machine's clock are decided together.
    id: LimiterId,
    hasher: KeyHasher,
    clock: C,
}

impl Builder {
    /// The capacity of a limiter unless [`Builder::capacity`] sets another: 100,000 keys. With GCRA
    /// that takes about 4 MB.
    pub const DEFAULT_CAPACITY: usize = 100_000;

    /// The largest capacity: 268,435,456 keys.
    pub const MAX_CAPACITY: usize = 1 << 28;

    /// The entries per key of capacity unless [`Builder::entries_per_key`] sets others: 16.
    pub const DEFAULT_ENTRIES_PER_KEY: usize = 16;

    /// The most waiters unless [`Builder::max_waiting`] sets another number: 10,000.
    pub const DEFAULT_MAX_WAITING: usize = 10_000;

    /// The largest number of entries per key of capacity: 1,000,000.
    pub const MAX_ENTRIES_PER_KEY: usize = 1_000_000;
}

impl MemoryLimiter {
    /// Returns a limiter of `policy` with room for 100,000 keys, by the machine's clock.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::builder(policy).limiter()
    }

    /// Returns the settings of a limiter of `policy`, to be changed and built.
    pub fn builder(policy: Policy) -> Builder {
        Builder {
            policy,
            room: Room {
                keys: Builder::DEFAULT_CAPACITY,
                entries_per_key: Builder::DEFAULT_ENTRIES_PER_KEY,
                on_full: OnFull::Refuse,
                max_waiting: Builder::DEFAULT_MAX_WAITING,
            },
            id: LimiterId::by_the_system_clock(),
            hasher: KeyHasher::default(),
            clock: SystemClock::new(),
        }
    }
}

impl<C: Clock + 'static> Builder<C> {
    /// Sets for about how many keys in debt the limiter has room. The default is 100,000.
    ///
    /// The table is allocated when the limiter is built and does not grow. For each limit of the policy, it takes about 40
    /// bytes a key with GCRA, two slots of about 85 bytes with another algorithm. Logs and sub-windows allocate their
    /// entries later, within [`Self::entries_per_key`]: a flood of logs takes up to about 650 bytes a
    /// key in all, which the limiter keeps for the next one.
    ///
    /// A new key that finds no free slot is refused until one of its slots is free: see
    /// [`on_full`](Self::on_full). Keys that have a slot keep it. Since a key's place depends on its hash, a
    /// few keys find none before the limiter is full: up to three in 100,000.
    pub fn capacity(self, keys: usize) -> Self {
        Self { room: Room { keys, ..self.room }, ..self }
    }

    /// Sets how many entries of logs and sub-windows there may be for each key of the capacity, of
    /// 16 bytes each. The default is 16.
    ///
    /// Half of them, up to 8, are each key's own. All keys share the others: at least enough for one
    /// key. When these are used up, and no recovered key has any, a key's entries are merged to later dates, the
    /// old ones more than the new ones. So its permits come back later, never earlier.
    pub fn entries_per_key(self, entries: usize) -> Self {
        Self { room: Room { entries_per_key: entries, ..self.room }, ..self }
    }

    /// Sets what happens to a new key while the table has no free slot for it. The default is to refuse it
    /// until the first of its slots is free, which is its `retry_after`.
    ///
    /// Such decisions have the [source](crate::Decision::source) [`Source::FullTable`](crate::Source), and
    /// [`MemoryLimiter::times_full`] counts them: then the [capacity](Self::capacity) is too small.
    pub fn on_full(self, on_full: OnFull) -> Self {
        Self { room: Room { on_full, ..self.room }, ..self }
    }

    /// Sets how many calls of [`acquire`](MemoryLimiter::acquire) can wait at the same time, for all keys together. The
    /// default is 10,000. Further ones are refused at once if their permits don't fit, and with zero nothing waits.
    pub fn max_waiting(self, waiters: usize) -> Self {
        Self { room: Room { max_waiting: waiters, ..self.room }, ..self }
    }

    /// Sets the hasher of [keys](MemoryLimiter#hashes-of-keys), which siblings share. The default is foldhash, a fast hash
    /// that is not cryptographic.
    ///
    /// ```
    /// use std::hash::RandomState;
    /// use limiter_core::{MemoryLimiter, Policy, Quota};
    ///
    /// // SipHash under a random key, which clients can't find out.
    /// let builder = MemoryLimiter::builder(Policy::gcra("api", Quota::per_second(10)));
    /// let limiter = builder.hasher(RandomState::new()).build()?;
    /// # let _ = limiter;
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// A hasher must be keyed by a secret if clients choose their keys: without one, anybody can prepare keys with equal
    /// hashes, which share one debt. All 64 bits of a hash have to depend on the whole key.
    pub fn hasher(self, hasher: impl BuildHasher + Send + Sync + 'static) -> Self {
        Self { hasher: KeyHasher::given(hasher), ..self }
    }

    /// Sets the clock that the limiter reads. Limiters with a [`SystemClock`], which is the default, are
    /// [decided](crate::decide) in one step.
    pub fn clock<D: Clock + 'static>(self, clock: D) -> Builder<D> {
        let Self { policy, room, hasher, .. } = self;
        // All values of it are one clock.
        let id = match TypeId::of::<D>() == TypeId::of::<SystemClock>() {
            true => LimiterId::by_the_system_clock(),
            false => LimiterId::new(),
        };
        Builder { policy, room, id, hasher, clock }
    }

    /// Returns the limiter.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the capacity is not from 1 to [`Builder::MAX_CAPACITY`], or
    /// the entries per key are not from 1 to [`Builder::MAX_ENTRIES_PER_KEY`].
    pub fn build(self) -> Result<MemoryLimiter<C>, Error> {
        check_capacity(self.room.keys)?;
        check("entries per key", self.room.entries_per_key, Builder::MAX_ENTRIES_PER_KEY)?;
        Ok(self.limiter())
    }

    fn limiter(self) -> MemoryLimiter<C> {
        let Self { policy, room, id, hasher, clock } = self;
        let clock = Arc::new(clock);
        let tables = Tables::new(id, &policy, room, Arc::<C>::clone(&clock));
        MemoryLimiter::of(tables, &policy, hasher, clock)
    }
}

pub(crate) fn check_capacity(keys: usize) -> Result<(), Error> {
    check("capacity", keys, Builder::MAX_CAPACITY)
}

/// Returns an error if a setting is not from 1 to `most`.
fn check(setting: &str, value: usize, most: usize) -> Result<(), Error> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    let (kind, value) = (ErrorKind::InvalidSetting, value.to_string());
    Err(Error::invalid(kind, setting, &value, format!("use 1 to {most}")))
}
