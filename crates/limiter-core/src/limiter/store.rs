//! What a limiter is to [`decide`](crate::decide).

use core::any::Any;

use crate::{Cost, Decision, Demand, JointDecision, Key, LimiterFuture, LimiterId};

/// What [`decide`](crate::decide) needs to know of a [`Limiter`](crate::Limiter), and how its store decides on a list.
///
/// For who writes a limiter on a store of their own. Callers need none of it.
///
/// Only the first two methods have to be written. With them alone, demands are charged one after the other, and given
/// back if a later one is refused.
pub trait Store: Send + Sync {
    /// Returns which states this handle is on. All handles on them have the same id, which is made with the limiter.
    fn id(&self) -> LimiterId;

    /// Returns the limiter as its own type, so that [`decide_together`](Self::decide_together) can downcast the limiters
    /// of its demands: `self`. A limiter around another one may return that of the inner one.
    fn as_any(&self) -> &dyn Any;

    /// Returns the part of the store that has `key`: demands for keys in one part are
    /// [decided together](Self::decide_together). The default is 0, for a store with one part.
    fn shard(&self, _key: &Key<'_>) -> u64 {
        0
    }

    /// Returns whether [`check_n`](crate::Limiter::check_n) would admit `cost` now, with the wait of a refusal, and
    /// charges nothing. `None`, the default, if a limiter can't decide that without a call to its store.
    ///
    /// The usage is the present one: that of an admission is the one before the charge.
    fn preview(&self, _key: &Key<'_>, _cost: Cost) -> Option<Decision> {
        None
    }

    /// Charges all demands if all fit now, or none.
    ///
    /// All are for limiters of this limiter's [store](LimiterId::shares_store_with) and for keys of one of its
    /// [shards](Self::shard), there are 1 to 16, and no two are for one key of one limiter under one policy. `is_part` if
    /// other demands of the list are decided elsewhere, so that what is charged here may be given back at once. `None`, the default,
    /// if the store can't decide on them in one step: then they are [previewed](Self::preview), reserved one after the
    /// other, and refunded if one is refused.
    fn decide_together(
        &self,
        _demands: &[Demand<'_>],
        _is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        None
    }
}
