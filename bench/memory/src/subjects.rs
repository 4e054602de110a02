//! The limiters that are compared, each behind the same calls.
//!
//! Every check returns whether it was admitted, after `black_box` has seen all that the crate
//! returned. Ours computes `remaining` and `reset_after` when they are read, which a cell of its own
//! measures.

use std::{hint::black_box, net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};
use limiter_core::{Builder, MemoryLimiter, Policy};

use crate::keys::Key;

/// A rate and a burst that all of the crates can express.
#[derive(Clone, Copy)]
pub(crate) struct Quota {
    permits: u32,
    window: Duration,
    burst: u32,
}

impl Quota {
    /// Admits more than a measurement can take: 5,000,000/s with a burst of 4 billion.
    pub(crate) const ADMITS_ALL: Self =
        Self { permits: 5_000_000, window: Duration::from_secs(1), burst: 4_000_000_000 };

    /// Another quota that does.
    pub(crate) const ADMITS_ALL_TOO: Self = Self { burst: 3_999_999_999, ..Self::ADMITS_ALL };

    /// Admits each key once: 1/h.
    pub(crate) const ADMITS_ONE: Self =
        Self { permits: 1, window: Duration::from_secs(3_600), burst: 1 };

    /// 100/min with a burst that a measurement does not take: a key is in debt after each check.
    pub(crate) const KEEPS_DEBT: Self =
        Self { permits: 100, window: Duration::from_secs(60), burst: 1_000_000 };

    /// A common quota, 100/min with a burst of 100: a key that was charged once is in debt for
    /// 600 ms.
    pub(crate) const COMMON: Self =
        Self { permits: 100, window: Duration::from_secs(60), burst: 100 };

    pub(crate) fn policy(self) -> Policy {
        let quota = limiter_core::Quota::new(self.permits.into(), self.window);
        let quota = quota.and_then(|quota| quota.try_with_burst(self.burst.into()));
        Policy::gcra("bench", quota.expect("a quota that the crate serves"))
    }

    fn governor(self) -> governor::Quota {
        let quota = governor::Quota::with_period(self.window / self.permits);
        let burst = NonZeroU32::new(self.burst).expect("a burst");
        quota.expect("a period").allow_burst(burst)
    }

    fn rate_net(self) -> rate_net::Quota {
        let quota = rate_net::Quota::rate(self.permits, self.window);
        quota.expect("a quota that rate-net serves").with_burst(self.burst)
    }
}

/// A limiter of keys.
pub(crate) trait Keyed<K>: Sync + Sized {
    const NAME: &'static str;

    /// Returns a limiter with room for so many keys, if the crate has that setting.
    fn new(quota: Quota, room: usize) -> Self;

    fn check(&self, key: &K) -> bool;
}

impl<K: Key> Keyed<K> for MemoryLimiter {
    const NAME: &'static str = "Limiter";

    fn new(quota: Quota, room: usize) -> Self {
        // The default, and more only for more keys.
        let capacity = room.max(Builder::DEFAULT_CAPACITY);
        Self::builder(quota.policy()).capacity(capacity).build().expect("a capacity")
    }

    #[inline]
    fn check(&self, key: &K) -> bool {
        let decision = Self::check(self, key.ours());
        black_box(&decision).is_admitted()
    }
}

/// governor has no setting for a number of keys: it grows.
impl<K: Key> Keyed<K> for DefaultKeyedRateLimiter<K> {
    const NAME: &'static str = "governor";

    fn new(quota: Quota, _: usize) -> Self {
        Self::keyed(quota.governor())
    }

    #[inline]
    fn check(&self, key: &K) -> bool {
        black_box(&self.check_key(key)).is_ok()
    }
}

impl<K: Key> Keyed<K> for rate_net::RateLimiter {
    const NAME: &'static str = "rate-net";

    fn new(quota: Quota, room: usize) -> Self {
        // Its documentation asks for a capacity above the real number of keys.
        let capacity = (room * 5 / 4).max(rate_net::DEFAULT_MAX_KEYS);
        Self::with_quota(quota.rate_net()).with_eviction(rate_net::Eviction::capacity(capacity))
    }

    #[inline]
    fn check(&self, key: &K) -> bool {
        let decision = Self::check(self, key.rate_net());
        black_box(&decision).is_allow()
    }
}

/// A limiter for everybody: ours with one key, the others without keys.
pub(crate) trait ForAll: Send + Sync {
    fn name(&self) -> &'static str;

    /// Runs so many checks and returns how many were admitted.
    fn check_many(&self, checks: usize) -> usize;
}

macro_rules! for_all {
    ($($type:ty, $name:literal, |$limiter:ident| $admitted:expr;)*) => {$(
        impl ForAll for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn check_many(&self, checks: usize) -> usize {
                let $limiter = self;
                (0..checks).filter(|_| $admitted).count()
            }
        }
    )*};
}
for_all! {
    MemoryLimiter, "Limiter", |limiter| black_box(&limiter.check("all")).is_admitted();
    DefaultDirectRateLimiter, "governor", |limiter| black_box(&limiter.check()).is_ok();
    rate_net::DirectLimiter, "rate-net", |limiter| black_box(&limiter.check()).is_allow();
    ratelimit::Ratelimiter, "ratelimit", |limiter| black_box(&limiter.try_wait()).is_ok();
    leaky_bucket::RateLimiter, "leaky-bucket", |limiter| *black_box(&limiter.try_acquire(1));
}

/// Returns ours with room for one key.
pub(crate) fn one_key(quota: Quota) -> MemoryLimiter {
    MemoryLimiter::builder(quota.policy()).capacity(1).build().expect("a capacity")
}

/// Returns all limiters for everybody.
pub(crate) fn for_all(quota: Quota) -> Vec<Arc<dyn ForAll>> {
    let (permits, window, burst) = (quota.permits, quota.window, u64::from(quota.burst));
    let ratelimit = ratelimit::Ratelimiter::builder(permits.into())
        .period(window)
        .max_tokens(burst)
        .initial_available(burst)
        .build();
    // Refills by whole tokens, so the shortest interval of at least 1 ms.
    let millis = u32::try_from(window.as_millis()).unwrap_or(u32::MAX);
    let (refill, interval) = if permits > millis {
        (permits / millis, Duration::from_millis(1))
    } else {
        (1, window / permits)
    };
    let leaky_bucket = leaky_bucket::RateLimiter::builder()
        .refill(refill as usize)
        .interval(interval)
        .max(quota.burst as usize)
        .initial(quota.burst as usize)
        .build();
    vec![
        Arc::new(one_key(quota)),
        Arc::new(DefaultDirectRateLimiter::direct(quota.governor())),
        Arc::new(rate_net::DirectLimiter::with_quota(quota.rate_net())),
        Arc::new(ratelimit.expect("a quota that ratelimit serves")),
        Arc::new(leaky_bucket),
    ]
}

/// Returns a key as the two crates take it that have a type for keys.
pub(crate) trait Forms {
    fn ours(&self) -> limiter_core::Key<'_>;
    fn rate_net(&self) -> rate_net::Key;
}

impl Forms for String {
    #[inline]
    fn ours(&self) -> limiter_core::Key<'_> {
        self.as_str().into()
    }

    #[inline]
    fn rate_net(&self) -> rate_net::Key {
        self.as_str().into()
    }
}

impl Forms for u64 {
    #[inline]
    fn ours(&self) -> limiter_core::Key<'_> {
        (*self).into()
    }

    #[inline]
    fn rate_net(&self) -> rate_net::Key {
        (*self).into()
    }
}

impl Forms for IpAddr {
    #[inline]
    fn ours(&self) -> limiter_core::Key<'_> {
        (*self).into()
    }

    #[inline]
    fn rate_net(&self) -> rate_net::Key {
        (*self).into()
    }
}
