//! What a reservation returns: when the permits may be used, and how to give them back.

use alloc::boxed::Box;
use core::{any::Any, fmt, time::Duration};

use crate::{Decision, LimiterId, Policy, charge::Charged};

/// Permits that were charged for now or for later, or the refusal to charge them.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
///
/// const FIVE_SECONDS: Duration = Duration::from_secs(5);
/// let limiter = MemoryLimiter::new(Policy::gcra("mail", Quota::per_second(1)));
/// let first = limiter.reserve("alice", Cost::ONE, FIVE_SECONDS);
/// assert_eq!(first.delay(), Some(Duration::ZERO));
/// let second = limiter.reserve("alice", Cost::ONE, FIVE_SECONDS);
/// assert!(second.delay() > Some(Duration::from_millis(900)));
/// ```
#[derive(Debug)]
#[must_use = "permits that were reserved are charged, whether or not they are used"]
pub struct Reservation {
    decision: Decision,
    delay: Option<Duration>,
    permits: u64,
    receipt: Option<Receipt>,
}

impl Reservation {
    /// Returns the permits of a receipt, which were charged for use after `delay`. The decision is the
    /// admission.
    #[inline]
    pub const fn admitted(decision: Decision, delay: Duration, receipt: Receipt) -> Self {
        Self { decision, delay: Some(delay), permits: receipt.permits(), receipt: Some(receipt) }
    }

    /// Returns an admission of so many permits without a receipt: none of them is counted.
    pub const fn uncounted(decision: Decision, permits: u64) -> Self {
        Self { decision, delay: Some(Duration::ZERO), permits, receipt: None }
    }

    /// Returns what a decision means that has charged nothing.
    pub(crate) const fn uncharged(decision: Decision) -> Self {
        match decision.is_admitted() {
            true => Self::uncounted(decision, 0),
            false => Self::refused(decision),
        }
    }

    /// Returns the refusal to charge permits.
    pub const fn refused(decision: Decision) -> Self {
        Self { decision, delay: None, permits: 0, receipt: None }
    }

    /// Returns the decision. An admission may have a delay.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Returns whether the request may proceed, now or later.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.delay.is_some()
    }

    /// Returns how long to wait before the permits may be used, or `None` if they were refused.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// Returns how many permits were charged, or admitted without being counted: see
    /// [`Source::FullTable`](crate::Source::FullTable). 0 if they were refused.
    ///
    /// [`take_up_to`](crate::Limiter::take_up_to) and [`charge`](crate::Limiter::charge) may charge fewer
    /// permits than they were given, the latter none.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns the receipt, or `None` if no permits were charged: they were refused, admitted without being
    /// counted, or none of a [`charge`](crate::Limiter::charge) was possible.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }
}

/// What was charged to which key: a refund gives it back once.
///
/// A receipt is good for the limiter that issued it and for all handles on it, as long as the charge
/// counts: [`Limiter::refund`](crate::Limiter::refund) lists what comes back. It never gives back more
/// than its own permits. It holds none of the limiter's states, so it may be kept for long.
///
/// A limiter outside of this crate stores what a refund needs in a token of its own type:
///
/// ```
/// use limiter_core::Receipt;
///
/// struct Token { key: String }
///
/// let receipt = Receipt::new(Token { key: "alice".to_owned() }, 5).keep(2);
/// let token = receipt.token::<Token>().map(|token| token.key.as_str());
/// assert_eq!((token, receipt.permits()), (Some("alice"), 3));
/// assert!(receipt.token::<u64>().is_none());
/// ```
pub struct Receipt {
    token: Token,
    /// At most what was charged.
    permits: u64,
}

enum Token {
    /// Not in a box, so that a reservation in memory allocates nothing.
    Memory(Taken),
    Store(Box<dyn Any + Send + Sync>),
}

/// What a limiter in memory gives back, and where. Not the states, because a receipt may be kept for longer
/// than its limiter.
pub(crate) struct Taken {
    pub(crate) limiter: LimiterId,
    /// The hash of the key.
    pub(crate) key: u64,
    /// By which it was charged.
    pub(crate) policy: Policy,
    pub(crate) charged: Charged,
}

impl Receipt {
    /// Returns a receipt for so many permits, with the token by which a store finds the charge.
    ///
    /// The token's type separates a limiter's receipts from those of others, so it should be private
    /// to that limiter.
    pub fn new(token: impl Any + Send + Sync, permits: u64) -> Self {
        Self { token: Token::Store(Box::new(token)), permits }
    }

    #[inline]
    pub(crate) fn of_memory(taken: Taken) -> Self {
        let permits = taken.charged.charges.permits();
        Self { token: Token::Memory(taken), permits }
    }

    /// Returns the token of the receipt, or `None` if it has another type.
    #[must_use]
    pub fn token<T: Any>(&self) -> Option<&T> {
        match &self.token {
            Token::Memory(_) => None,
            Token::Store(token) => token.downcast_ref(),
        }
    }

    /// Returns what a limiter in memory has charged, if it was one.
    pub(crate) const fn taken(&self) -> Option<&Taken> {
        match &self.token {
            Token::Memory(taken) => Some(taken),
            Token::Store(_) => None,
        }
    }

    /// Returns how many permits a refund gives back at most.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Keeps `used` permits, at most all of them, so that a refund gives back the others: to settle
    /// an estimate when the true cost is known.
    ///
    #[doc = include_str!("../docs/items/receipt-keep.md")]
    #[must_use]
    pub const fn keep(mut self, used: u64) -> Self {
        self.permits = self.permits.saturating_sub(used);
        self
    }
}

/// Prints no token: the hash of a key in it would help a client to compute the seed of the hashes.
impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("permits", &self.permits).finish_non_exhaustive()
    }
}
