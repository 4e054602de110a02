//! Bounds for requests that wait instead of being refused.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use limiter_core::{Clock, Key, SystemClock, Timestamp};

use crate::key::Digests;

/// How long requests wait for permits, and how many.
///
/// A request that fits is admitted at once. Otherwise it waits, if its wait is at most `within` and the
/// queue has room; else it is refused at once. Waiters for one key are admitted in the order in
/// which they came. A request that is reset while it waits keeps its place until it was due, so that a client has no more
/// places by resets than by waiting. nginx's `burst=20 delay=8` admits nine requests at once, delays twelve and refuses
/// the others: that is a quota with a burst of 9 and a queue of 12.
///
/// Clones share the number of waiters, so one value given to several rules bounds them together.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, RateLimitLayer, Rule, rule::Wait};
///
/// # #[cfg(feature = "tokio")] {
/// // 10/s from each address: 9 at once, 12 more delayed by up to 2 s, the rest refused.
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(10).with_burst(9)));
/// let wait = Wait::up_to(Duration::from_secs(2)).queue(12);
/// let layer = RateLimitLayer::all([Rule::waiting(limiter, ClientIp::peer(), wait)]);
/// # }
/// ```
#[derive(Clone)]
pub struct Wait {
    within: Duration,
    per_key: usize,
    total: usize,
    waiters: Arc<Mutex<Waiters>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Waiters {
    digests: Digests,
    /// By the digest of the rule and the key.
    by_key: HashMap<u128, usize>,
    total: usize,
    /// The places of requests that were reset, by the moment at which they were due, and a number.
    reset: BTreeMap<(Timestamp, u64), u128>,
    resets: u64,
}

impl Wait {
    /// Returns bounds of `within` for each request's wait, 100 waiters for each key, and 1,000 in
    /// total.
    #[must_use]
    pub fn up_to(within: Duration) -> Self {
        let clock = Arc::new(SystemClock::new());
        Self { within, per_key: 100, total: 1_000, waiters: Arc::default(), clock }
    }

    /// Sets the clock by which the places of requests that were reset are free again, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Sets how many requests may wait for one key. With zero, nothing waits.
    #[must_use]
    pub fn queue(self, per_key: usize) -> Self {
        Self { per_key, ..self }
    }

    /// Sets how many requests may wait in total, in this process. Choose several times the number for one key: a key gets
    /// no further place once it holds half as many places as are free, so that a few keys can't take them all.
    #[must_use]
    pub fn total(self, waiters: usize) -> Self {
        Self { total: waiters, ..self }
    }

    pub(crate) const fn within(&self) -> Duration {
        self.within
    }

    /// Returns a place in the queue of `key` under the named rule, for a request that is due after `wait`; `None` if there
    /// are too many waiters.
    pub(crate) fn enter(&self, rule: &str, key: &Key<'_>, wait: Duration) -> Option<WaiterGuard> {
        let now = self.clock.now();
        let mut waiters = lock(&self.waiters);
        waiters.free_until(now);
        let digest = waiters.digests.of(&Key::tuple([rule.into(), key.into()]));
        let of_key = waiters.by_key.get(&digest).copied().unwrap_or(0);
        // One key can't fill the queue: see `total`.
        let free = self.total.saturating_sub(waiters.total);
        if of_key >= self.per_key.min(free.div_ceil(2)) {
            return None;
        }
        waiters.by_key.insert(digest, of_key + 1);
        waiters.total += 1;
        let waiters = Arc::clone(&self.waiters);
        Some(WaiterGuard { place: Some(digest), due: now.saturating_add(wait), waiters })
    }
}

impl Waiters {
    /// Frees the places of requests that were reset and were due by now.
    fn free_until(&mut self, now: Timestamp) {
        while let Some(first) = self.reset.first_entry()
            && first.key().0 <= now
        {
            let place = first.remove();
            self.free(place);
        }
    }

    fn free(&mut self, place: u128) {
        self.total -= 1;
        if let Some(of_key) = self.by_key.get_mut(&place) {
            *of_key -= 1;
            if *of_key == 0 {
                self.by_key.remove(&place);
            }
        }
    }
}

fn lock(waiters: &Mutex<Waiters>) -> MutexGuard<'_, Waiters> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { within, per_key, total, .. } = self;
        f.debug_struct("Wait")
            .field("within", within)
            .field("per_key", per_key)
            .field("total", total)
            .finish_non_exhaustive()
    }
}

/// A waiter's place. If this is dropped before the waiter [leaves](Self::leave), it is free again once the waiter was due.
pub(crate) struct WaiterGuard {
    /// `None` once it is free.
    place: Option<u128>,
    due: Timestamp,
    waiters: Arc<Mutex<Waiters>>,
}

impl WaiterGuard {
    /// Frees the place, because the wait has ended.
    pub(crate) fn leave(mut self) {
        if let Some(place) = self.place.take() {
            lock(&self.waiters).free(place);
        }
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let mut waiters = lock(&self.waiters);
            waiters.resets += 1;
            let number = waiters.resets;
            waiters.reset.insert((self.due, number), place);
        }
    }
}
