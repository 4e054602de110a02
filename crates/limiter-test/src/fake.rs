//! A limiter whose checks return what a test wants.

use std::{any::Any, sync::Arc, time::Duration};

use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, LimiterId, Policy, Receipt,
    Reservation, Store, Usage, WaitingLimiter,
};

/// Methods that return an error.
macro_rules! beyond_a_fake {
    ($($method:ident($($argument:ty),*) -> $output:ty;)*) => {$(
        fn $method(&self, $(_: $argument),*) -> LimiterFuture<$output> {
            LimiterFuture::ready(Err(beyond_a_fake()))
        }
    )*};
}

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

    beyond_a_fake! {
        peek(&Key<'_>) -> Usage;
        reserve(&Key<'_>, Cost, Duration) -> Reservation;
        take_up_to(&Key<'_>, Cost) -> Reservation;
        charge(&Key<'_>, Cost) -> Reservation;
        refund(Receipt) -> u64;
        reset(&Key<'_>) -> ();
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
    beyond_a_fake! {
        acquire(&Key<'_>, Cost, Option<Duration>) -> Reservation;
    }

    fn waiting_with_policy(&self, _: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Err(beyond_a_fake())
    }
}

fn beyond_a_fake() -> Error {
    Error::new(ErrorKind::Unavailable, "a fake limiter serves only checks")
}
