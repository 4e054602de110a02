//! Bounds for requests that wait instead of being refused.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use limiter_core::Key;

/// How long requests wait for permits, and how many.
///
/// A request that fits is admitted at once. Otherwise it waits, if its wait is at most `within` and the
/// queue has room; else it is refused at once. Waiters for one key are admitted in the order in
/// which they came. nginx's `burst=20 delay=8` admits nine requests at once, delays twelve and refuses
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
}

#[derive(Default)]
struct Waiters {
    by_key: HashMap<Box<[u8]>, usize>,
    total: usize,
}

impl Wait {
    /// Returns bounds of `within` for each request's wait, 100 waiters for each key, and 1,000 in
    /// total.
    #[must_use]
    pub fn up_to(within: Duration) -> Self {
        Self { within, per_key: 100, total: 1_000, waiters: Arc::default() }
    }

    /// Sets how many requests may wait for one key. With zero, nothing waits.
    #[must_use]
    pub fn queue(self, per_key: usize) -> Self {
        Self { per_key, ..self }
    }

    /// Sets how many requests may wait in total, in this process: several times as many as for one key, because a key
    /// gets no place once it has half as many as are free. So a few keys can't take all.
    #[must_use]
    pub fn total(self, waiters: usize) -> Self {
        Self { total: waiters, ..self }
    }

    pub(crate) const fn within(&self) -> Duration {
        self.within
    }

    /// Returns a place in the queue of `key` under the named rule, or `None` if there are too many
    /// waiters.
    pub(crate) fn enter(&self, rule: &str, key: &Key<'_>) -> Option<WaiterGuard> {
        let mut name = Vec::new();
        Key::tuple([rule.into(), key.into()]).encode(&mut name);
        let name = name.into_boxed_slice();
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = waiters.by_key.get(&name).copied().unwrap_or(0);
        // A key has at most half as many places as are free, so that a few keys can't take them all.
        let free = self.total.saturating_sub(waiters.total);
        if of_key >= self.per_key.min(free.div_ceil(2)) {
            return None;
        }
        waiters.by_key.insert(name.clone(), of_key + 1);
        waiters.total += 1;
        Some(WaiterGuard { name, waiters: Arc::clone(&self.waiters) })
    }
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

/// A waiter's place, which is free again once this is dropped.
pub(crate) struct WaiterGuard {
    name: Box<[u8]>,
    waiters: Arc<Mutex<Waiters>>,
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.total -= 1;
        if let Some(of_key) = waiters.by_key.get_mut(&self.name) {
            *of_key -= 1;
            if *of_key == 0 {
                waiters.by_key.remove(&self.name);
            }
        }
    }
}
