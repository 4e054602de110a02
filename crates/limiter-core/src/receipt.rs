//! What a reservation gives: when to go on, and what to give back.

use alloc::boxed::Box;
use core::{any::Any, time::Duration};

use crate::Decision;
#[cfg(feature = "std")]
use crate::memory::Taken;

/// Permits that were taken for now or for later, or the refusal to take them.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::time::Duration;
/// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("mail", Quota::per_minute(60)?.with_burst(1)?)?)?;
/// let first = limiter.reserve("alice", Cost::ONE, Duration::from_secs(5));
/// assert_eq!(first.delay(), Some(Duration::ZERO));
/// let second = limiter.reserve("alice", Cost::ONE, Duration::from_secs(5));
/// assert!(second.delay() > Some(Duration::from_millis(900)));
/// # }
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "permits that were reserved are taken, whether or not they are used"]
pub struct Reservation {
    decision: Decision,
    delay: Duration,
    receipt: Option<Receipt>,
}

impl Reservation {
    /// Returns permits that were taken, for use after `delay`. The decision is the admission.
    pub const fn admitted(decision: Decision, delay: Duration, receipt: Receipt) -> Self {
        Self { decision, delay, receipt: Some(receipt) }
    }

    /// Returns the refusal to take permits.
    pub const fn refused(decision: Decision) -> Self {
        Self { decision, delay: Duration::ZERO, receipt: None }
    }

    /// Returns the decision. An admission may come with a delay.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Returns how long to wait before the permits may be used, or `None` if they were refused.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        if self.receipt.is_some() { Some(self.delay) } else { None }
    }

    /// Returns the receipt, or `None` if the permits were refused.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }
}

/// What was taken of which key: it can be given back once.
///
/// A receipt is good for the limiter that gave it out, its clones and tiers, and for as long as what
/// was taken counts; after that it gives back nothing. Nor does it after a reset of the key or, now
/// and then, of another, after a change of the quota, or when the clock has stepped back.
///
/// A limiter outside of this crate puts into it what it has to know, as a token of its own type:
///
/// ```
/// use limiter_core::Receipt;
///
/// struct Token { key: String }
///
/// let receipt = Receipt::of_store(Token { key: "alice".to_owned() }, 5).keep(2);
/// let token = receipt.token::<Token>().map(|token| token.key.as_str());
/// assert_eq!((token, receipt.permits()), (Some("alice"), 3));
/// assert!(receipt.token::<u64>().is_none());
/// ```
#[derive(Debug)]
pub struct Receipt {
    token: Token,
    /// At most what was charged.
    permits: u64,
}

#[derive(Debug)]
enum Token {
    /// Without a box: a limiter in memory allocates nothing for a reservation.
    #[cfg(feature = "std")]
    Memory(Taken),
    Store(Box<dyn Any + Send + Sync>),
}

impl Receipt {
    /// Returns a receipt for so many permits, by which a store finds what was taken.
    ///
    /// The token's type tells a limiter its own receipts from others': it should be one that only
    /// that limiter has. A token of no size takes no allocation.
    pub fn of_store(token: impl Any + Send + Sync, permits: u64) -> Self {
        Self { token: Token::Store(Box::new(token)), permits }
    }

    #[cfg(feature = "std")]
    pub(crate) const fn of_memory(taken: Taken, permits: u64) -> Self {
        Self { token: Token::Memory(taken), permits }
    }

    /// Returns the token that the receipt was made with, or `None` if it is of another type, or the
    /// receipt another limiter's.
    #[must_use]
    pub fn token<T: Any>(&self) -> Option<&T> {
        match &self.token {
            #[cfg(feature = "std")]
            Token::Memory(_) => None,
            Token::Store(token) => token.downcast_ref(),
        }
    }

    /// Returns what a limiter in memory has taken, if it was one.
    #[cfg(feature = "std")]
    pub(crate) const fn taken(&self) -> Option<Taken> {
        match self.token {
            Token::Memory(taken) => Some(taken),
            Token::Store(_) => None,
        }
    }

    /// Returns how many permits it gives back.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Keeps `used` permits, all that there are at most, so that a refund gives back the others:
    /// to settle an estimate when the true cost is known.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use std::time::Duration;
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("tokens", Quota::per_minute(1_000)?)?)?;
    /// let estimate = limiter.reserve("alice", Cost::new(600)?, Duration::ZERO);
    /// if let Some(receipt) = estimate.into_receipt() {
    ///     let tokens_in_the_response = 100;
    ///     limiter.refund(receipt.keep(tokens_in_the_response));
    /// }
    /// assert!(limiter.peek("alice").remaining() >= 899);
    /// # }
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    #[must_use]
    pub const fn keep(mut self, used: u64) -> Self {
        self.permits = self.permits.saturating_sub(used);
        self
    }
}
