//! What a reservation gives: when to go on, and what to give back.

use core::time::Duration;

use crate::{Decision, memory::Dated};

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
    pub(crate) const fn admitted(decision: Decision, delay: Duration, receipt: Receipt) -> Self {
        Self { decision, delay, receipt: Some(receipt) }
    }

    pub(crate) const fn refused(decision: Decision) -> Self {
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
/// A receipt is good for the limiter that gave it out, and for as long as what was taken counts;
/// after that it gives back nothing. Nor does it after a reset of the key or, now and then, of
/// another, after a change of the quota, or when the clock has stepped back.
#[derive(Debug)]
pub struct Receipt {
    /// Of the limiter that gave it out.
    pub(crate) limiter: u64,
    /// Of the key.
    pub(crate) hash: u64,
    /// By which it was taken.
    pub(crate) tier: usize,
    pub(crate) charge: Dated,
    /// At most what was charged.
    pub(crate) permits: u64,
}

impl Receipt {
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
    pub const fn keep(self, used: u64) -> Self {
        let permits = self.permits.saturating_sub(used);
        Self { permits, ..self }
    }
}
