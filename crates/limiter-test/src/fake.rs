//! A limiter that answers checks as a test wants it to.

use std::{sync::Arc, time::Duration};

use limiter_core::{
    Answer, Check, Cost, Error, ErrorKind, Key, Limiter, Policy, Receipt, Reservation, Usage,
};

/// A limiter whose checks are answered by a function. To anything else it answers with an error.
#[derive(Clone, Debug)]
pub struct Fake<F> {
    policy: Policy,
    check: F,
}

impl<F: Fn() -> Check + Send + Sync> Fake<F> {
    /// Returns a limiter that says it applies `policy`.
    pub const fn new(policy: Policy, check: F) -> Self {
        Self { policy, check }
    }
}

impl<F: Fn() -> Check + Send + Sync> Limiter for Fake<F> {
    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn check(&self, _: &Key<'_>, _: Cost) -> Check {
        (self.check)()
    }

    fn peek(&self, _: &Key<'_>) -> Answer<Usage> {
        Answer::ready(Err(beyond_a_fake()))
    }

    fn reserve(&self, _: &Key<'_>, _: Cost, _: Duration) -> Answer<Reservation> {
        Answer::ready(Err(beyond_a_fake()))
    }

    fn refund(&self, _: Receipt) -> Answer<()> {
        Answer::ready(Err(beyond_a_fake()))
    }

    fn reset(&self, _: &Key<'_>) -> Answer<()> {
        Answer::ready(Err(beyond_a_fake()))
    }

    fn replace(&self, _: Policy) -> Result<(), Error> {
        Err(beyond_a_fake())
    }

    fn tier(&self, _: &str) -> Result<Arc<dyn Limiter>, Error> {
        Err(beyond_a_fake())
    }
}

fn beyond_a_fake() -> Error {
    Error::new(ErrorKind::Unavailable, "a fake only answers checks")
}
