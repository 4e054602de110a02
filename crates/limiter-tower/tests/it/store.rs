//! A limiter that is like a store: an operation is executed when it is sent, and its result arrives later.

use std::any::Any;

use limiter_core::{LimiterId, Receipt, Reservation, WaitingLimiter};

use crate::*;

/// Executes operations at once, and returns their results when they are polled for the second time. So a request that
/// is dropped meanwhile has charged its key, as one has that was sent to Redis.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    inner: MemoryLimiter<ManualClock>,
    id: LimiterId,
}

impl Store {
    pub(crate) fn new(inner: MemoryLimiter<ManualClock>) -> Self {
        Self { inner, id: LimiterId::new() }
    }
}

/// Returns the result of an operation that was executed, later.
fn later<T: Send + 'static>(mut executed: LimiterFuture<T>) -> LimiterFuture<T> {
    let result = executed.take_ready().unwrap();
    LimiterFuture::pending(async move {
        tokio::task::yield_now().await;
        result
    })
}

impl Limiter for Store {
    fn policy(&self) -> &Policy {
        self.inner.policy()
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        later(Limiter::check_n(&self.inner, key, cost))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        later(Limiter::peek(&self.inner, key))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        later(Limiter::reserve(&self.inner, key, cost, within))
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        later(Limiter::take_up_to(&self.inner, key, most))
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        later(Limiter::charge(&self.inner, key, cost))
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        later(Limiter::refund(&self.inner, receipt))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        later(Limiter::reset(&self.inner, key))
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self { inner: self.inner.with_policy(policy)?, id: self.id }))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self { inner: self.inner.sibling(policy), id: self.id.sibling() }))
    }
}

impl limiter_core::Store for Store {
    fn id(&self) -> LimiterId {
        self.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Waiters lose their connection.
impl WaitingLimiter for Store {
    fn acquire(&self, _: &Key<'_>, _: Cost, _: Option<Duration>) -> LimiterFuture<Reservation> {
        later(LimiterFuture::ready(Err(Error::new(ErrorKind::Unavailable, "no connection"))))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self { inner: self.inner.with_policy(policy)?, id: self.id }))
    }
}
