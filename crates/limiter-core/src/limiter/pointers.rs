//! Pointers to limiters that are chosen at run time are limiters.

use alloc::{boxed::Box, sync::Arc};
use core::{any::Any, time::Duration};

use super::{Demand, Limiter, Store, WaitingLimiter};
use crate::{
    Cost, Decision, Error, JointDecision, Key, LimiterFuture, LimiterId, Policy, Receipt,
    Reservation, Usage, forward::forward,
};

forward!(Store for Arc<dyn Limiter>, Box<dyn Limiter>, Arc<dyn WaitingLimiter>, Box<dyn WaitingLimiter>: {
    fn id(&self) -> LimiterId;
    fn as_any(&self) -> &dyn Any;
    fn shard(&self, key: &Key<'_>) -> u64;
    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision>;
    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        is_part: bool
    ) -> Option<LimiterFuture<JointDecision>>;
});

forward!(Limiter for Arc<dyn Limiter>, Box<dyn Limiter>, Arc<dyn WaitingLimiter>, Box<dyn WaitingLimiter>: {
    fn policy(&self) -> &Policy;
    fn store(&self) -> &'static str;
    fn check(&self, key: &Key<'_>) -> LimiterFuture<Decision>;
    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision>;
    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage>;
    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation>;
    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation>;
    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation>;
    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64>;
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;
    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;
    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;
    fn sibling_with_capacity(&self, policy: &Policy, keys: usize) -> Result<Arc<dyn Limiter>, Error>;
});

forward!(WaitingLimiter for Arc<dyn WaitingLimiter>, Box<dyn WaitingLimiter>: {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> LimiterFuture<Reservation>;
    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error>;
});
