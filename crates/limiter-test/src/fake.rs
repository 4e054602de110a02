//! A limiter whose checks return what a test wants.

use std::{any::Any, sync::Arc, time::Duration};

use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, LimiterId, Policy, Receipt,
    Reservation, Store, Usage, WaitingLimiter,
};

/// A limiter whose checks return what a function returns. All else returns an error.
#[derive(Clone, Debug)]
pub struct Fake<F> {
    policy: Policy,
    id: LimiterId,
    check: F,
}

impl<F: Fn() -> LimiterFuture<Decision> + Send + Sync> Fake<F> {
    /// Returns a limiter that reports `policy`.
    pub fn new(policy: Policy, check: F) -> Self {
        Self { policy, id: LimiterId::new(), check }
    }
}

impl<F: Fn() -> LimiterFuture<Decision> + Send + Sync + 'static> Limiter for Fake<F> {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn check_n(&self, _: &Key<'_>, _: Cost) -> LimiterFuture<Decision> {
        (self.check)()
    }

    fn peek(&self, _: &Key<'_>) -> LimiterFuture<Usage> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn reserve(&self, _: &Key<'_>, _: Cost, _: Duration) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn take_up_to(&self, _: &Key<'_>, _: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn charge(&self, _: &Key<'_>, _: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn refund(&self, _: Receipt) -> LimiterFuture<u64> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn reset(&self, _: &Key<'_>) -> LimiterFuture<()> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn with_policy(&self, _: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Err(beyond_a_fake())
    }

    fn sibling(&self, _: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Err(beyond_a_fake())
    }
}

impl<F: Fn() -> LimiterFuture<Decision> + Send + Sync + 'static> Store for Fake<F> {
    fn id(&self) -> LimiterId {
        self.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Not the default.
    fn shard(&self, _: &Key<'_>) -> u64 {
        1
    }
}

impl<F: Fn() -> LimiterFuture<Decision> + Send + Sync + 'static> WaitingLimiter for Fake<F> {
    fn acquire(&self, _: &Key<'_>, _: Cost, _: Option<Duration>) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Err(beyond_a_fake()))
    }

    fn waiting_with_policy(&self, _: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Err(beyond_a_fake())
    }
}

fn beyond_a_fake() -> Error {
    Error::new(ErrorKind::Unavailable, "a fake limiter serves only checks")
}
