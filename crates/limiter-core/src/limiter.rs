//! The async seam: what a program asks, wherever the state lives.

mod answer;

use alloc::{boxed::Box, sync::Arc};
use core::time::Duration;

pub use answer::{Answer, Check};

use crate::{Cost, Error, Key, Policy, Receipt, Reservation, Usage};

/// Applies one policy to many keys.
///
/// Implementations keep a key's state in memory ([`MemoryLimiter`](crate::MemoryLimiter)) or in a
/// store that several processes share. The trait is object-safe: a program that chooses at run
/// time holds an `Arc<dyn Limiter>`, and goes from one to the other by another constructor.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::{sync::Arc, time::Duration};
/// use limiter_core::{Cost, Error, Limiter, MemoryLimiter, Policy, Quota};
///
/// /// Charges an estimate, and settles it when the true cost is known.
/// async fn complete(limiter: &dyn Limiter, user: &str) -> Result<bool, Error> {
///     let estimate = Cost::new(600)?;
///     let reservation = limiter.reserve(&user.into(), estimate, Duration::ZERO).await?;
///     let Some(receipt) = reservation.into_receipt() else { return Ok(false) };
///     let tokens_in_the_response = 100;
///     limiter.refund(receipt.keep(tokens_in_the_response)).await?;
///     Ok(true)
/// }
///
/// # futures::executor::block_on(async {
/// let policy = Policy::sliding_log("tokens", Quota::per_hour(1_000)?)?;
/// let limiter: Arc<dyn Limiter> = Arc::new(MemoryLimiter::new(policy)?);
/// assert!(complete(&limiter, "alice").await?);
/// assert_eq!(limiter.peek(&"alice".into()).await?.used(), 100);
/// # Ok::<(), Error>(())
/// # }).unwrap();
/// # }
/// ```
///
/// # Errors
///
/// An answer is an error if the store could not be asked, or did not answer as it should. A refusal
/// is not an error. The kinds are
///
/// - [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable): the store has not done it;
/// - [`ErrorKind::Undetermined`](crate::ErrorKind::Undetermined): it may have;
/// - [`ErrorKind::Unexpected`](crate::ErrorKind::Unexpected): what the store holds, or answers, is
///   none of this library's.
///
/// A limiter in memory answers at once, and never with an error.
pub trait Limiter: Send + Sync {
    /// Returns the policy that is applied: of a [`tier`](Self::tier), the tier's.
    fn policy(&self) -> Policy;

    /// Takes `cost` permits of `key` if they are there now. Never waits for permits.
    fn check(&self, key: &Key<'_>, cost: Cost) -> Check;

    /// Returns how far the permits of `key` are used up, and takes none.
    fn peek(&self, key: &Key<'_>) -> Answer<Usage>;

    /// Takes `cost` permits of `key` that are there now or will be `within` some time, and tells
    /// when they may be used, counted from the answer. What comes later has to wait behind them.
    ///
    /// Within no time it is [`check`](Self::check), with a receipt.
    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation>;

    /// Gives back what `receipt` tells, as far as it still counts. Never lifts a key above a fresh
    /// one, and gives back nothing for a receipt of another limiter.
    ///
    /// The receipt is used up, even where the answer is an error.
    fn refund(&self, receipt: Receipt) -> Answer<()>;

    /// Makes `key` a fresh one, by all tiers. Receipts from before give back nothing any more.
    fn reset(&self, key: &Key<'_>) -> Answer<()>;

    /// Applies `policy` from now on, to all keys, by all clones and tiers of this limiter. Keys keep
    /// their debts, as far as the new quotas remember any, and wait no longer than these can make
    /// them wait.
    ///
    /// Of a store that several processes share, each process is given the policy by itself, and
    /// applies the one before until it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the policy has other kinds
    /// of limits than the one before, lacks one of its tiers, or has another name where the store
    /// finds a key's state by that. [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if
    /// the store can't count one of its quotas. The policy then stays as it was.
    fn replace(&self, policy: Policy) -> Result<(), Error>;

    /// Returns the limiter as it is for the keys of another tier of its policy: what a key takes by
    /// one of them, it has taken from the other too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName) if the policy has no such tier.
    fn tier(&self, name: &str) -> Result<Arc<dyn Limiter>, Error>;
}

/// A limiter whose callers can wait until permits are there.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::{sync::Arc, time::Duration};
/// use limiter_core::{
///     Cost, Error, Key, Limiter, ManualClock, MemoryLimiter, Policy, Quota, WaitingLimiter,
/// };
///
/// /// Waits for two seconds at most, and tells whether the mail was sent.
/// async fn send(limiter: &dyn WaitingLimiter, user: &str) -> Result<bool, Error> {
///     let within = Some(Duration::from_secs(2));
///     let reservation = limiter.acquire(&Key::from(user), Cost::ONE, within).await?;
///     Ok(reservation.decision().is_admitted())
/// }
///
/// # futures::executor::block_on(async {
/// let clock = ManualClock::new();
/// let policy = Policy::gcra("mail", Quota::per_second(1)?)?;
/// let limiter = MemoryLimiter::new(policy)?.with_clock(clock.clone());
/// let limiter: Arc<dyn WaitingLimiter> = Arc::new(limiter);
///
/// let mails = async { futures::join!(send(&limiter, "alice"), send(&limiter, "alice")) };
/// let one_second_later = async { clock.advance(Duration::from_secs(1)) };
/// let ((first, second), ()) = futures::join!(mails, one_second_later);
/// assert!(first? && second?);
///
/// // It is a limiter like any other.
/// let limiter: Arc<dyn Limiter> = limiter;
/// assert!(!limiter.check(&"alice".into(), Cost::ONE).await?.is_admitted());
/// # Ok::<(), Error>(())
/// # }).unwrap();
/// # }
/// ```
pub trait WaitingLimiter: Limiter {
    /// Takes `cost` permits of `key` as soon as they are there, `within` some time from now if that
    /// is given. If they will not be there within it, or never can be, they are refused at once.
    ///
    /// The place in the queue is taken when the answer is first polled, and those who wait for one
    /// key through one limiter, its clones and its tiers have their turns in that order. As long as
    /// someone waits, [`check`](Limiter::check) and [`reserve`](Limiter::reserve) are refused there:
    /// no one overtakes. An answer that is dropped before it is ready gives its place back, and
    /// whatever may have been taken for it. The reservation has no delay any more.
    ///
    /// It may have to be polled within the runtime that the limiter's timer or client belongs to.
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation>;
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

            fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
                (**self).peek(key)
            }

            fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
                (**self).reserve(key, cost, within)
            }

            fn refund(&self, receipt: Receipt) -> Answer<()> {
                (**self).refund(receipt)
            }

            fn reset(&self, key: &Key<'_>) -> Answer<()> {
                (**self).reset(key)
            }

            fn replace(&self, policy: Policy) -> Result<(), Error> {
                (**self).replace(policy)
            }

            fn tier(&self, name: &str) -> Result<Arc<dyn Limiter>, Error> {
                (**self).tier(name)
            }
        }

        impl<L: WaitingLimiter + ?Sized> WaitingLimiter for $pointer<L> {
            fn acquire(
                &self,
                key: &Key<'_>,
                cost: Cost,
                within: Option<Duration>,
            ) -> Answer<Reservation> {
                (**self).acquire(key, cost, within)
            }
        }
    )*};
}
forward!(Arc Box);
