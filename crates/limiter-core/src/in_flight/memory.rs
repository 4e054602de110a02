//! The limiter of requests in flight for one process.
//!
//! | file | what |
//! |---|---|
//! | `builder` | the settings |
//! | `shard` | the counts of a part of the keys and their waiters, under a lock |

mod builder;
mod shard;

use std::{
    fmt,
    ops::ControlFlow::{self, Break, Continue},
    pin::Pin,
    sync::Arc,
    task::Waker,
    time::Duration,
};

pub use builder::InFlightBuilder;

use self::shard::{Call, Shard, Shared, Ticket};
use super::check_in_flight;
use crate::{
    Clock, Entry, Error, InFlightLimiter, Key, LimiterFuture, LimiterId, Occupancy, SystemClock,
    Timer, Timestamp,
    memory::{KeyHasher, part_of},
    sync::{Ordering, wake_all},
    waiting::Wait,
};

/// A limit on requests in flight, in this process's memory.
///
/// Its memory is bounded, it needs no background thread, and clones share one set of counts. A permit is given back
/// when it is dropped, also by a panic or a future that is cancelled.
///
/// ```
/// use limiter_core::InFlight;
///
/// let uploads = InFlight::new("uploads", 1)?;
/// let permit = uploads.try_enter("alice").into_permit().expect("nothing is in flight");
/// assert!(!uploads.try_enter("alice").is_admitted());
/// assert!(uploads.try_enter("bob").is_admitted());
///
/// drop(permit);
/// assert!(uploads.try_enter("alice").is_admitted());
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// # Order
///
/// A permit that is given back goes to the first waiter of the key that has room under its limit. Under one limit that
/// is the order of arrival, and [`try_enter`](Self::try_enter) never overtakes a waiter. A call under a higher limit
/// overtakes waiters under a lower one, because there is room for it and none for them.
///
/// # Hashes of keys
///
/// A key is stored as its hash of 64 bits, as in a [`MemoryLimiter`](crate::MemoryLimiter#hashes-of-keys). Keys with
/// one hash share one count.
pub struct InFlight<C = SystemClock>(Arc<Inner<C>>);

struct Inner<C> {
    name: String,
    id: LimiterId,
    hasher: KeyHasher,
    shared: Arc<Shared>,
    /// Not empty.
    shards: Box<[Arc<Shard>]>,
    clock: Arc<C>,
}

impl<C> InFlight<C> {
    #[inline(always)]
    fn call(&self, key: &Key<'_>, limit: Option<u32>) -> Call {
        Call { hash: self.0.hasher.hash(key), limit }
    }

    /// Returns the part of the table that has the count of a key.
    fn shard(&self, call: Call) -> &Arc<Shard> {
        part_of(&self.0.shards, call.hash)
    }

    fn take(&self, call: Call) -> Entry {
        // Not one function of the shard, from which the entry was copied: 9 ns more (`cargo xtask bench memory`).
        let shard = self.shard(call);
        let taken = shard.lock().take(call);
        shard.entry(call, taken)
    }

    fn occupancy(&self, call: Call) -> Occupancy {
        self.shard(call).lock().peek(call)
    }
}

impl<C: Clock> InFlight<C> {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the limiter's own limit, from 1.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.0.shared.limit.load(Ordering::Relaxed)
    }

    /// Sets the limiter's own limit for all handles, from now on. Requests in flight go on, also if there are more of
    /// them than the new limit. A higher limit admits waiters at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if `limit` is zero.
    pub fn set_limit(&self, limit: u32) -> Result<(), Error> {
        check_in_flight(self.name(), limit)?;
        self.0.shared.limit.store(limit, Ordering::Relaxed);
        let wakers = self.0.shards.iter().flat_map(|shard| shard.lock().update_limit());
        wake_all(wakers.collect());
        Ok(())
    }

    /// Takes a permit of `key` if fewer than the limiter's own limit are held. Never waits.
    pub fn try_enter<'a>(&self, key: impl Into<Key<'a>>) -> Entry {
        self.take(self.call(&key.into(), None))
    }

    /// Takes a permit of `key` if fewer than `limit` are held. Never waits. A limit of zero refuses.
    ///
    /// ```
    /// use limiter_core::InFlight;
    ///
    /// let queries = InFlight::new("queries", 10)?;
    /// // All requests share one count. Those that can be shed leave 20 % to the others.
    /// let running: Vec<_> = (0..10).map(|_| queries.try_enter_under("db", 8)).collect();
    /// assert_eq!(running.iter().filter(|entry| entry.is_admitted()).count(), 8);
    /// assert!(queries.try_enter("db").is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    pub fn try_enter_under<'a>(&self, key: impl Into<Key<'a>>, limit: u32) -> Entry {
        self.take(self.call(&key.into(), Some(limit)))
    }

    /// Takes a permit of `key` as soon as fewer than the limiter's own limit are held, up to `within` from now if that
    /// is given. Waiters of a key are admitted in the [order](Self#order) of their arrival.
    ///
    /// It is refused at the end of `within`, and at once if too many calls [wait already](InFlightBuilder::max_waiting)
    /// or the table has no place for the key. The place in the queue is taken when the future is first polled. A future
    /// that is dropped gives up its place, and a permit that was just taken for it. With a [`SystemClock`], `within`
    /// needs a tokio runtime; outside of one, tokio's timer panics. Like any `async` block, the future panics if it is
    /// polled again after it was ready.
    ///
    /// ```
    /// use limiter_core::{InFlight, ManualClock};
    ///
    /// # futures::executor::block_on(async {
    /// let uploads = InFlight::builder("uploads", 1).clock(ManualClock::new()).build()?;
    /// let first = uploads.try_enter("alice").into_permit();
    /// let second = uploads.acquire("alice", None);
    /// let (second, ()) = futures::join!(second, async { drop(first) });
    /// assert!(second.is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn acquire<'a>(
        &self,
        key: impl Into<Key<'a>>,
        within: Option<Duration>,
    ) -> Pin<Box<dyn Future<Output = Entry> + Send>>
    where
        C: Timer + 'static,
    {
        Box::pin(self.waiter(&key.into(), None, within).wait())
    }

    /// Does what [`acquire`](Self::acquire) does under another limit, which [`set_limit`](Self::set_limit) does not
    /// change. A limit of zero refuses at once.
    pub fn acquire_under<'a>(
        &self,
        key: impl Into<Key<'a>>,
        limit: u32,
        within: Option<Duration>,
    ) -> Pin<Box<dyn Future<Output = Entry> + Send>>
    where
        C: Timer + 'static,
    {
        Box::pin(self.waiter(&key.into(), Some(limit), within).wait())
    }

    /// Does what [`acquire`](Self::acquire) does on this thread, for code without a runtime. They share the queue.
    pub fn acquire_blocking<'a>(&self, key: impl Into<Key<'a>>, within: Option<Duration>) -> Entry {
        self.waiter(&key.into(), None, within).block()
    }

    fn waiter(&self, key: &Key<'_>, limit: Option<u32>, within: Option<Duration>) -> Acquire<C> {
        let call = self.call(key, limit);
        let (clock, shard) = (Arc::clone(&self.0.clock), Arc::clone(self.shard(call)));
        let deadline = within.map(|within| clock.now().saturating_add(within));
        Acquire { clock, shard, call, deadline, ticket: None }
    }

    /// Returns how many permits of `key` are held.
    #[must_use]
    pub fn held<'a>(&self, key: impl Into<Key<'a>>) -> u32 {
        self.peek(key).held()
    }

    /// Returns how many permits of `key` are held under the limiter's own limit, as [`try_enter`](Self::try_enter)
    /// would find it, and takes none.
    #[must_use]
    pub fn peek<'a>(&self, key: impl Into<Key<'a>>) -> Occupancy {
        self.occupancy(self.call(&key.into(), None))
    }

    /// Forgets the permits of `key`. Requests in flight go on; giving their permits back changes nothing. Waiters are
    /// admitted.
    pub fn reset<'a>(&self, key: impl Into<Key<'a>>) {
        let call = self.call(&key.into(), None);
        let wakers = self.shard(call).lock().reset(call.hash);
        wake_all(wakers);
    }

    /// Returns how much is in use, for gauges. It locks each part of the table in turn, so under load the numbers may
    /// be of slightly different moments.
    #[must_use]
    pub fn stats(&self) -> InFlightStats {
        let Inner { shared, shards, .. } = &*self.0;
        let (waiting, capacity) = (shared.waiting.get(), shared.keys.bound());
        let mut stats = InFlightStats { held: 0, waiting, keys: 0, capacity, times_full: 0 };
        for shard in shards {
            let counts = shard.lock();
            stats.held += counts.held;
            stats.keys += counts.by_hash.len();
            stats.times_full += counts.times_full;
        }
        stats
    }
}

/// How much of an [`InFlight`] is in use: see [`InFlight::stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightStats {
    held: u64,
    waiting: usize,
    keys: usize,
    capacity: usize,
    times_full: u64,
}

impl InFlightStats {
    /// Returns how many permits of all keys are held.
    #[must_use]
    pub const fn held(self) -> u64 {
        self.held
    }

    /// Returns how many calls wait for a permit.
    #[must_use]
    pub const fn waiting(self) -> usize {
        self.waiting
    }

    /// Returns how many keys hold permits.
    #[must_use]
    pub const fn keys(self) -> usize {
        self.keys
    }

    /// Returns how many keys can hold permits at the same time.
    #[must_use]
    pub const fn capacity(self) -> usize {
        self.capacity
    }

    /// Returns how many calls were refused so far because the table had no place for their keys.
    #[must_use]
    pub const fn times_full(self) -> u64 {
        self.times_full
    }
}

/// A request with its place in the queue, which it gives up when it is dropped.
struct Acquire<C> {
    clock: Arc<C>,
    shard: Arc<Shard>,
    call: Call,
    /// By [`Clock::now`].
    deadline: Option<Timestamp>,
    /// `None` before it has joined the queue, and after it has left.
    ticket: Option<Ticket>,
}

impl<C: Clock> Wait for Acquire<C> {
    type Clock = C;
    type Answer = Entry;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn poll(&mut self, waker: &Waker) -> ControlFlow<Entry, Timestamp> {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= self.clock.now());
        let waker = (!is_late).then(|| waker.clone());
        let answer = self.shard.poll(self.call, &mut self.ticket, waker);
        // No clock says when it is due.
        answer.map_or(Continue(Timestamp::MAX), Break)
    }

    fn wake_at(&self, _due: Timestamp) -> Option<Timestamp> {
        self.deadline
    }
}

impl<C> Drop for Acquire<C> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            // Also gives back a permit that was taken for it.
            drop(self.shard.poll(self.call, &mut self.ticket, None));
        }
    }
}

impl<C: Clock> InFlightLimiter for InFlight<C> {
    fn name(&self) -> &str {
        self.name()
    }

    fn limit(&self) -> u32 {
        self.limit()
    }

    fn set_limit(&self, limit: u32) -> Result<(), Error> {
        self.set_limit(limit)
    }

    fn id(&self) -> LimiterId {
        self.0.id
    }

    fn store(&self) -> &'static str {
        "memory"
    }

    fn enter(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Entry> {
        LimiterFuture::ready(Ok(self.take(self.call(key, Some(limit)))))
    }

    fn peek(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Occupancy> {
        LimiterFuture::ready(Ok(self.occupancy(self.call(key, Some(limit)))))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.reset(key);
        LimiterFuture::ready(Ok(()))
    }
}

impl<C> Clone for InFlight<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Clock> fmt::Debug for InFlight<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("InFlight");
        debug.field("name", &self.name()).field("limit", &self.limit()).finish_non_exhaustive()
    }
}
