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
    usage: Usage,
    /// `None` where no wait is long enough.
    retry_after: Option<Duration>,
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
    /// Returns an admission that left `usage`.
    pub const fn admitted(usage: Usage) -> Self {
        Self { verdict: Verdict::Admitted, usage, retry_after: Some(Duration::ZERO) }
    }

    /// Returns a refusal at `usage`. `retry_after` is `None` if the cost can never fit.
    pub const fn refused(usage: Usage, retry_after: Option<Duration>) -> Self {
        Self { verdict: Verdict::Refused, usage, retry_after }
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

    /// Returns how far the key's permits are used up: after an admission, or at a refusal.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the most permits that the key can ever take at once: see [`Usage::limit`].
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.usage.limit
    }

    /// Returns how many permits the key could take at this moment: see [`Usage::remaining`].
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.usage.remaining
    }

    /// Returns how long to wait until the same cost is admitted, if nothing else is taken
    /// meanwhile: rounded up to the store's clock tick, zero for an admission, and `None` if the
    /// cost is above what can ever be admitted.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns how long until the key has fully recovered: see [`Usage::reset_after`].
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.usage.reset_after
    }

    /// Returns which of the policy's limits decided: see [`Usage::limit_index`].
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.usage.limit_index()
    }
}

/// How far a key's permits are used up at one moment.
///
/// Of several limits on one subject, it tells of one: of the limit that refused, with the longest
/// wait; for an admission or a look, of the limit that has the fewest permits left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    limit: u64,
    remaining: u64,
    reset_after: Duration,
    limit_index: u8,
}

impl Usage {
    /// Returns the usage of a policy's only limit.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Self { limit, remaining, reset_after, limit_index: 0 }
    }

    pub(crate) const fn of_limit(self, index: u8) -> Self {
        Self { limit_index: index, ..self }
    }

    /// Returns the most permits that the key can ever take at once: the quota's burst, or, where
    /// each slot of a window has its own ceiling, the highest of these.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many permits the key could take at this moment if no one waited for them, rounded
    /// down.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how many permits are taken and not yet recovered, rounded up, the limit at most.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.limit.saturating_sub(self.remaining)
    }

    /// Returns how long until the key has fully recovered, if nothing else is taken meanwhile.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_after
    }

    /// Returns which limit this tells of, as an index into [`Policy::limits`](crate::Policy::limits).
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.limit_index as usize
    }
}
