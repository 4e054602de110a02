//! The layer.

use std::{fmt, sync::Arc};

use limiter_core::Limiter;
use tower_layer::Layer;

use crate::{
    key::{KeyExtractor, PeerAddress},
    options::{OnMissingKey, OnStoreFailure},
    responder::Responder,
    service::RateLimit,
};

/// Limits the requests to a service.
///
/// All clones, and all services that they make, share one limiter and one state.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{HeaderKey, OnMissingKey, OnStoreFailure, RateLimitLayer};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(50)));
/// let layer = RateLimitLayer::new(limiter)
///     .with_key(HeaderKey::new(http::HeaderName::from_static("x-api-key")))
///     .on_missing_key(OnMissingKey::Reject)
///     .on_store_failure(OnStoreFailure::Deny);
/// # Ok::<(), limiter_core::Error>(())
/// ```
pub struct RateLimitLayer<L, K = PeerAddress> {
    shared: Arc<Shared<L, K>>,
}

/// What all clones share, behind one counter.
pub(crate) struct Shared<L, K> {
    pub(crate) limiter: Arc<L>,
    pub(crate) key: Arc<K>,
    pub(crate) responder: Arc<Responder>,
}

impl<L: Limiter> RateLimitLayer<L> {
    /// Returns a layer that asks `limiter` about each request, under its [`PeerAddress`].
    pub fn new(limiter: L) -> Self {
        let responder = Arc::new(Responder::new(limiter.policy()));
        let (limiter, key) = (Arc::new(limiter), Arc::new(PeerAddress::new()));
        Self { shared: Arc::new(Shared { limiter, key, responder }) }
    }
}

impl<L, K> RateLimitLayer<L, K> {
    /// Counts requests under the keys that `key` finds.
    #[must_use]
    pub fn with_key<N: KeyExtractor>(self, key: N) -> RateLimitLayer<L, N> {
        let Shared { limiter, responder, .. } = Arc::unwrap_or_clone(self.shared);
        RateLimitLayer { shared: Arc::new(Shared { limiter, key: Arc::new(key), responder }) }
    }

    /// Says what to do with a request that has no key.
    #[must_use]
    pub fn on_missing_key(self, choice: OnMissingKey) -> Self {
        self.with_responder(|responder| responder.on_missing_key = choice)
    }

    /// Says what to do with a request while the limiter's store can't decide.
    #[must_use]
    pub fn on_store_failure(self, choice: OnStoreFailure) -> Self {
        self.with_responder(|responder| responder.on_store_failure = choice)
    }

    fn with_responder(self, change: impl FnOnce(&mut Responder)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(Arc::make_mut(&mut shared.responder));
        Self { shared: Arc::new(shared) }
    }
}

impl<S, L, K> Layer<S> for RateLimitLayer<L, K> {
    type Service = RateLimit<S, L, K>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.shared))
    }
}

impl<L, K> Clone for RateLimitLayer<L, K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<L, K> Clone for Shared<L, K> {
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            key: Arc::clone(&self.key),
            responder: Arc::clone(&self.responder),
        }
    }
}

impl<L, K> fmt::Debug for RateLimitLayer<L, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("responder", &self.shared.responder)
            .finish_non_exhaustive()
    }
}
