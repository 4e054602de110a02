//! The limiter as a limiter that is chosen at run time.

use std::{any::Any, sync::Arc, time::Duration};

use super::{decide::decide_dynamic, limiter::MemoryLimiter};
use crate::{
    Clock, Cost, Decision, Demand, Error, JointDecision, Key, Limiter, LimiterFuture, LimiterId,
    Policy, Receipt, Reservation, Store, Timer, Usage, WaitingLimiter, algorithms::KeyStates,
    waiting::Wait,
};

impl<C: Clock + 'static> Limiter for MemoryLimiter<C> {
    fn policy(&self) -> &Policy {
        self.policy()
    }

    fn store(&self) -> &'static str {
        "memory"
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        LimiterFuture::ready(Ok(self.check_n(key, cost)))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        LimiterFuture::ready(Ok(self.peek(key)))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.reserve(key, cost, within)))
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.take_up_to(key, most)))
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        LimiterFuture::ready(Ok(self.charge(key, cost)))
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        LimiterFuture::ready(Ok(self.refund(receipt)))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.reset(key);
        LimiterFuture::ready(Ok(()))
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling(self, policy)))
    }

    fn sibling_with_capacity(
        &self,
        policy: &Policy,
        keys: usize,
    ) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling_with_capacity(self, policy, keys)?))
    }
}

impl<C: Clock + 'static> Store for MemoryLimiter<C> {
    fn id(&self) -> LimiterId {
        self.tables().id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        let key = self.hasher.hash(key);
        let preview = || {
            let decide = |states: &mut KeyStates<'_, '_>| states.decision(cost, states.wait(cost));
            self.tables().operate(&self.limits, key, None, decide)
        };
        Some(self.refusal(key, cost).map_or_else(preview, |refusal| refusal.decision))
    }

    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        _is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        Some(LimiterFuture::ready(Ok(decide_dynamic::<C>(demands)?)))
    }
}

/// [`MemoryLimiter::acquire`] in a box.
impl<C: Timer + 'static> WaitingLimiter for MemoryLimiter<C> {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        let acquire = self.waiter(key, cost, within).wait();
        LimiterFuture::pending(async { Ok(acquire.await) })
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}
