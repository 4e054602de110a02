//! The one async seam: what a service asks, wherever the state lives.

use alloc::{boxed::Box, sync::Arc};
use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{Cost, Decision, Error, Key, Policy};

/// Applies one policy to many keys.
///
/// Implementations keep a key's state in memory ([`MemoryLimiter`](crate::MemoryLimiter)) or in a
/// store that several processes share. The trait is object-safe: a program that chooses at run
/// time holds an `Arc<dyn Limiter>`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::sync::Arc;
/// use limiter_core::{Cost, Limiter, MemoryLimiter, Policy, Quota};
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let policy = Policy::gcra("api", Quota::per_second(100)?)?;
/// let limiter: Arc<dyn Limiter> = Arc::new(MemoryLimiter::new(policy)?);
/// let decision = limiter.check(&"alice".into(), Cost::ONE).await?;
/// # Ok(())
/// # }
/// # }
/// ```
pub trait Limiter: Send + Sync {
    /// Returns the policy that is applied.
    fn policy(&self) -> Policy;

    /// Takes `cost` permits of `key` if they are there now. Never waits for permits.
    ///
    /// # Errors
    ///
    /// The future yields an error if the store could not answer; the kinds that it can have are
    /// the implementation's. A refusal is not an error.
    fn check(&self, key: &Key<'_>, cost: Cost) -> Check;
}

macro_rules! forward {
    ($($pointer:ident)*) => {$(
        impl<L: Limiter + ?Sized> Limiter for $pointer<L> {
            fn policy(&self) -> Policy {
                (**self).policy()
            }

            fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
                (**self).check(key, cost)
            }
        }
    )*};
}
forward!(Arc Box);

/// A decision that is there already, or on its way from a store.
///
/// A limiter in memory answers with [`Check::ready`], which costs no allocation.
#[must_use = "a decision that no one awaits limits nothing"]
pub struct Check(Repr);

enum Repr {
    /// `None` once it was taken.
    Ready(Option<Result<Decision, Error>>),
    Pending(Pin<Box<dyn Future<Output = Result<Decision, Error>> + Send>>),
}

impl Check {
    /// Returns a decision that is there already.
    #[inline]
    pub const fn ready(result: Result<Decision, Error>) -> Self {
        Self(Repr::Ready(Some(result)))
    }

    /// Returns a decision that `future` will bring.
    pub fn pending(future: impl Future<Output = Result<Decision, Error>> + Send + 'static) -> Self {
        Self(Repr::Pending(Box::pin(future)))
    }

    /// Takes the decision if it was there already, without polling anything.
    #[inline]
    pub fn take_ready(&mut self) -> Option<Result<Decision, Error>> {
        match &mut self.0 {
            Repr::Ready(result) => result.take(),
            Repr::Pending(_) => None,
        }
    }
}

impl Future for Check {
    type Output = Result<Decision, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Like any future, pending for ever when polled after it has completed.
            Repr::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Repr::Pending(future) => future.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Repr::Pending(_) => f.write_str("Pending"),
        }
    }
}
