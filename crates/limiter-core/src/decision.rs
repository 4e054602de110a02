//! What a limiter answers.

use core::time::Duration;

/// A limiter's answer for one key at one moment.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use limiter_core::{Cost, MemoryLimiter, Policy, Quota, Verdict};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_hour(3)?)?)?;
/// let decision = limiter.try_acquire("alice", Cost::ONE);
/// assert_eq!(decision.verdict(), Verdict::Admitted);
/// assert_eq!((decision.limit(), decision.remaining()), (3, 2));
/// # }
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a refusal that no one looks at limits nothing"]
pub struct Decision {
    verdict: Verdict,
    limit: u64,
    remaining: u64,
    /// `None` where no wait is long enough.
    retry_after: Option<Duration>,
    reset_after: Duration,
}

/// Whether the request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The permits were taken.
    Admitted,
    /// Nothing was taken.
    Refused,
}

impl Decision {
    /// Returns an admission. All values are of the moment after the permits were taken.
    pub const fn admitted(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        let retry_after = Some(Duration::ZERO);
        Self { verdict: Verdict::Admitted, limit, remaining, retry_after, reset_after }
    }

    /// Returns a refusal. `retry_after` is `None` if the cost can never fit.
    pub const fn refused(
        limit: u64,
        remaining: u64,
        retry_after: Option<Duration>,
        reset_after: Duration,
    ) -> Self {
        Self { verdict: Verdict::Refused, limit, remaining, retry_after, reset_after }
    }

    /// Returns whether the request may go on.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns whether the permits were taken.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.verdict, Verdict::Admitted)
    }

    /// Returns the most permits that the key can ever take at once: the quota's burst.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many permits the key could take at this moment, rounded down.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how long to wait until the same cost is admitted, if nothing else is taken
    /// meanwhile: rounded up to the store's clock tick, zero for an admission, and `None` if the
    /// cost is above what can ever be admitted.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns how long until the key has fully recovered, if nothing else is taken meanwhile.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_after
    }
}
