//! The interface of every limiter, whether its states live in memory or in a store.

use alloc::{boxed::Box, sync::Arc};
use core::{
    any::Any,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use crate::{
    Cost, Decision, Demand, Error, JointDecision, Key, KnownQuotas, LimiterId, Policy, Receipt,
    Reservation, Usage, joint::one_by_one,
};

/// Applies a policy to many keys.
///
/// Implementations keep a key's state in memory ([`MemoryLimiter`](crate::MemoryLimiter)) or in a
/// store that processes share. The trait is object-safe: a program that chooses at run time holds an
/// `Arc<dyn Limiter>`.
///
#[doc = include_str!("../docs/items/limiter.md")]
///
/// # Errors
///
/// A result is an error if the store fails, of the [kind](crate::ErrorKind) `Unavailable`,
/// `Undetermined` or `Unexpected`. A refusal is not an error. A limiter in memory is ready at once and
/// returns no error.
pub trait Limiter: Send + Sync {
    /// Returns the policy that this handle enforces.
    fn policy(&self) -> &Policy;

    /// Returns which states this handle is on. All handles on them have the same id, which is made with the limiter.
    fn id(&self) -> LimiterId;

    /// Returns the limiter as its own type, so that [`decide_together`](Self::decide_together) can downcast the limiters
    /// of its demands: `self`.
    fn as_any(&self) -> &dyn Any;

    /// Returns what holds the states, for metrics and events: `memory`, `redis`, or the name of another
    /// store.
    fn store(&self) -> &'static str {
        "other"
    }

    /// Returns how many different quotas the limiter knows by now, and how many it can know: then
    /// [`with_policy`](Self::with_policy) fails for another one. `None`, the default, if it can know any
    /// number.
    fn known_quotas(&self) -> Option<KnownQuotas> {
        None
    }

    /// Charges one permit to `key` if it fits now: [`check_n`](Self::check_n) with a cost of one.
    fn check(&self, key: &Key<'_>) -> LimiterFuture<Decision> {
        self.check_n(key, Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now. Never waits for permits.
    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision>;

    /// Returns how far the permits of `key` are used up, and charges nothing.
    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage>;

    /// Returns whether [`check_n`](Self::check_n) would admit `cost` now, with the wait of a refusal, and
    /// charges nothing. `None`, the default, if a limiter can't decide that without a call to its store.
    ///
    /// The usage is the present one: that of an admission is the one before the charge.
    fn preview(&self, _key: &Key<'_>, _cost: Cost) -> Option<Decision> {
        None
    }

    /// Charges `cost` to `key` if it fits now or up to `within` later, and returns the delay. What is
    /// charged later has to wait behind it.
    ///
    /// Permits are promised no farther ahead than the policy's horizon. Behind a debt that another quota
    /// charged, GCRA promises nothing for later until the own quota has charged the key, and windows promise
    /// nothing while a window of another length counts: what does not fit now is refused. With `within` zero,
    /// this is [`check_n`](Self::check_n) with a receipt.
    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation>;

    /// Charges all demands if all fit now, or none: for [`decide`](crate::decide), which calls it.
    ///
    /// All are for limiters of this limiter's [store](LimiterId::shares_store_with), there is at least one, and no two
    /// that charge, or that only ask, are for one key of one limiter. The default reads them by
    /// [`preview`](Self::preview), reserves one after the other, and refunds what was charged if one is refused. A store
    /// that can decide by one call overrides it.
    fn decide_together(&self, demands: &[Demand<'_>]) -> LimiterFuture<JointDecision> {
        one_by_one(demands)
    }

    /// Gives back the permits of `receipt` as far as they still count, and returns their number: of several
    /// limits, the most that came back to one. The receipt is used up, even if the result is an error.
    ///
    /// - By GCRA, what comes back is at most the cost less what would have drained since, if the charge
    ///   had been alone; and what was reserved behind it keeps its moment. Windows give back all permits
    ///   within the same window, logs and sub-windows as long as the entry counts.
    /// - Before the moment of a reservation for later, it comes back whole, in all limits, or not at all: if
    ///   [`keep`](Receipt::keep) left a part, or something is reserved behind it, nothing comes back.
    /// - Nothing comes back of another limiter's receipt, or if the clock has stepped back to before the
    ///   charge. By GCRA, nothing comes back while the key's last charge is another quota's.
    /// - In memory, nothing comes back of charges from before a step back of the clock by which the debt of
    ///   some key became longer than its quota allows: a full debt then replaces that of the key, and
    ///   counts for what was charged before.
    /// - No key is lifted above a fresh one. After a reset, or when its quota charges again after another
    ///   one, a receipt may give back later charges of the key, at most its own permits.
    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64>;

    /// Makes `key` fresh.
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;

    /// Returns a handle on the same states that enforces `policy`: for tiers, for quotas of single
    /// customers, and for reloads. Keys keep their debts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the policy has other
    /// [families](Policy::families) than this limiter's states, or other names for several limits.
    ///
    /// [`ErrorKind::TooManyQuotas`](crate::ErrorKind::TooManyQuotas) if the limiter has no room for
    /// another quota.
    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;

    /// Returns another limiter in the same store, of any algorithm, with the settings of this one and states of its own:
    /// for blocks, and for limits of other subjects that are [decided together](crate::decide) with this one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the store can't tell the states of the two
    /// limiters apart.
    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;
}

/// A limiter whose callers can wait for permits.
///
#[doc = include_str!("../docs/items/waiting-limiter.md")]
pub trait WaitingLimiter: Limiter {
    /// Charges `cost` to `key` as soon as it fits, up to `within` from now if that is given. If it
    /// will not fit by then, or never can, it is refused at once.
    ///
    /// The place in the queue is taken when the future is first polled. Waiters for one key through
    /// one limiter and its handles are served in that order, and while there are waiters,
    /// [`check`](Limiter::check) and [`reserve`](Limiter::reserve) are refused. A future that is
    /// dropped before it is ready gives its place back, and whatever was charged for it. The
    /// returned reservation has no delay left.
    ///
    /// A store may wait by [`reserve`](Limiter::reserve), and then refuses what that refuses: a wait
    /// beyond the horizon, or behind another quota's debt. A limiter in memory waits for both.
    ///
    /// It may have to be polled within the runtime that the limiter's timer or client belongs to.
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation>;

    /// Returns [`with_policy`](Limiter::with_policy) as a limiter whose callers can wait.
    ///
    /// # Errors
    ///
    /// As [`with_policy`](Limiter::with_policy).
    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error>;
}

/// Implements a trait for pointers to what implements it.
macro_rules! forward {
    ($trait:ident for $($pointer:ident)*: $methods:tt) => {
        $(forward!(@ $trait $pointer $methods);)*
    };
    (@ $trait:ident $pointer:ident {
        $(fn $method:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*
    }) => {
        impl<L: $trait + ?Sized> $trait for $pointer<L> {
            $(fn $method(&self $(, $argument: $type)*) -> $result {
                (**self).$method($($argument),*)
            })*
        }
    };
}

forward!(Limiter for Arc Box: {
    fn policy(&self) -> &Policy;
    fn id(&self) -> LimiterId;
    fn as_any(&self) -> &dyn Any;
    fn store(&self) -> &'static str;
    fn known_quotas(&self) -> Option<KnownQuotas>;
    fn check(&self, key: &Key<'_>) -> LimiterFuture<Decision>;
    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision>;
    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage>;
    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision>;
    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation>;
    fn decide_together(&self, demands: &[Demand<'_>]) -> LimiterFuture<JointDecision>;
    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64>;
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;
    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;
    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;
});

forward!(WaitingLimiter for Arc Box: {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> LimiterFuture<Reservation>;
    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error>;
});

/// The future of a limiter's operation: ready at once from memory, pending from a store.
///
/// A limiter in memory returns [`LimiterFuture::ready`], which allocates nothing. With a store, nothing may
/// be sent before the future is first polled; if it is dropped before it is ready, the store may or
/// may not have executed the operation. Polled again after it was ready, it stays pending, and executes
/// nothing.
#[must_use = "an operation may not be executed until its future is awaited"]
pub struct LimiterFuture<T>(Repr<T>);

enum Repr<T> {
    /// `None` once it was taken.
    Ready(Option<Result<T, Error>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>),
}

impl<T> LimiterFuture<T> {
    /// Returns a future that is ready.
    #[inline]
    pub const fn ready(result: Result<T, Error>) -> Self {
        Self(Repr::Ready(Some(result)))
    }

    /// Returns a future that runs `future`.
    pub fn pending(future: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        Self(Repr::Pending(Box::pin(future)))
    }

    /// Returns the result if it was ready from the start and was not taken, without polling anything.
    #[inline]
    pub const fn as_ready(&self) -> Option<&Result<T, Error>> {
        match &self.0 {
            Repr::Ready(result) => result.as_ref(),
            Repr::Pending(_) => None,
        }
    }

    /// Takes the result if it was ready from the start, without polling anything.
    #[inline]
    pub fn take_ready(&mut self) -> Option<Result<T, Error>> {
        match &mut self.0 {
            Repr::Ready(result) => result.take(),
            Repr::Pending(_) => None,
        }
    }
}

// Nothing in it is pinned: the future is in a box.
impl<T> Unpin for LimiterFuture<T> {}

impl<T> Future for LimiterFuture<T> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Pending for ever when polled after it has completed: nothing that a request reaches panics.
            Repr::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Repr::Pending(future) => {
                let result = ready!(future.as_mut().poll(cx));
                self.0 = Repr::Ready(None);
                Poll::Ready(result)
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for LimiterFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Repr::Pending(_) => f.write_str("Pending"),
        }
    }
}
