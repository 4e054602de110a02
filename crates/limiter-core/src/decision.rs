//! What a limiter answers.

use core::time::Duration;

use crate::Usage;

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
    source: Source,
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

/// Where a decision comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The limiter's own state, in memory or in the store that it asked.
    Store,
    /// An earlier refusal that still holds: the store was not asked again.
    Remembered,
    /// A limiter in this process's memory, in place of a store that could not be asked. What the
    /// decision tells of usage and waits is then its own.
    Local,
    /// No state at all: the store could not be asked, and all requests are treated alike. What the
    /// decision tells of usage and waits is then no more than a guess.
    Failure,
}

impl Decision {
    /// Returns an admission that left `usage`, by the limiter's own state.
    pub const fn admitted(usage: Usage) -> Self {
        let retry_after = Some(Duration::ZERO);
        Self { verdict: Verdict::Admitted, usage, retry_after, source: Source::Store }
    }

    /// Returns a refusal at `usage`, by the limiter's own state. `retry_after` is `None` if the cost
    /// can never fit.
    pub const fn refused(usage: Usage, retry_after: Option<Duration>) -> Self {
        Self { verdict: Verdict::Refused, usage, retry_after, source: Source::Store }
    }

    /// Sets where the decision comes from: [`Source::Store`] unless something else is said.
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
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
        self.usage.limit()
    }

    /// Returns how many permits the key could take at this moment: see [`Usage::remaining`].
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.usage.remaining()
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
        self.usage.reset_after()
    }

    /// Returns which of the policy's limits decided: see [`Usage::limit_index`].
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.usage.limit_index()
    }

    /// Returns where the decision comes from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }
}
