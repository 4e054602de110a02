//! Pointers to limiters that are chosen at run time are limiters.

use alloc::{boxed::Box, sync::Arc};
use core::{any::Any, time::Duration};

use crate::{
    Cost, Decision, Demand, Entry, Error, InFlightLimiter, JointDecision, Key, Limiter,
    LimiterFuture, LimiterId, Occupancy, Policy, Receipt, Reservation, Store, Usage,
    WaitingLimiter,
};

/// Implements a trait for pointers to trait objects. Not for a pointer to any limiter: `check("a")` of an
/// `Arc<MemoryLimiter>` is that of the [`MemoryLimiter`](crate::MemoryLimiter), also where the trait is in scope.
macro_rules! forward {
    ($trait:ident for $($pointer:ty),*: $methods:tt) => {
        $(forward!(@ $trait, $pointer, $methods);)*
    };
    (@ $trait:ident, $pointer:ty, {
        $(fn $method:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*
    }) => {
        impl $trait for $pointer {
            $(fn $method(&self $(, $argument: $type)*) -> $result {
                (**self).$method($($argument),*)
            })*
        }
    };
}

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

forward!(InFlightLimiter for Arc<dyn InFlightLimiter>, Box<dyn InFlightLimiter>: {
    fn name(&self) -> &str;
    fn limit(&self) -> u32;
    fn set_limit(&self, limit: u32) -> Result<(), Error>;
    fn id(&self) -> LimiterId;
    fn store(&self) -> &'static str;
    fn enter(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Entry>;
    fn peek(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Occupancy>;
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;
});
