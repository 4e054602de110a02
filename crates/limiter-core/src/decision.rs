//! What a limiter decides, and how far a key's permits are used up.

use core::{cmp::Reverse, time::Duration};

/// The most limits of one policy.
pub(crate) const MAX_LIMITS: usize = 8;

/// A limiter's decision for one key at one moment: an admission or a refusal.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use limiter_core::{MemoryLimiter, Policy, Quota};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_hour(3)));
/// let decision = limiter.check("alice");
/// assert!(decision.is_admitted());
/// assert_eq!((decision.limit(), decision.remaining()), (3, 2));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request is limited only if its decision is acted on"]
pub struct Decision {
    usage: Usage,
    /// In nanoseconds; `NEVER` if the cost can never fit.
    retry_after: u64,
    admitted: bool,
    source: Source,
}

/// No wait is that long. Waits are stored in nanoseconds because a smaller decision is returned
/// faster: `cargo xtask bench memory`.
const NEVER: u64 = u64::MAX;

/// Where a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The limiter's own state, in memory or in the store.
    Store,
    /// A cached denial that still holds. No call was sent to the store.
    Cache,
    /// A limiter in this process's memory, because the store failed. Usage and waits are those of
    /// that limiter.
    Local,
    /// No state, because the store failed: all requests are admitted, or all refused. Usage and waits
    /// are placeholders.
    Failure,
}

impl Decision {
    /// Returns an admission that left `usage`, decided by the store.
    pub const fn admitted(usage: Usage) -> Self {
        Self { usage, retry_after: 0, admitted: true, source: Source::Store }
    }

    /// Returns a refusal at `usage`, decided by the store. `retry_after` is `None` if the cost can
    /// never fit.
    pub const fn refused(usage: Usage, retry_after: Option<Duration>) -> Self {
        let retry_after = match retry_after {
            Some(wait) if nanos(wait) < NEVER => nanos(wait),
            Some(_) => NEVER - 1,
            None => NEVER,
        };
        Self { usage, retry_after, admitted: false, source: Source::Store }
    }

    /// Sets where the decision was made. The default is [`Source::Store`].
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Returns whether the request may proceed: its permits were charged.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Returns how far the key's permits are used up, after this decision.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the most permits that the key can ever take at once: see [`Usage::limit`].
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.usage.limit()
    }

    /// Returns how many permits the key could take now: see [`Usage::remaining`].
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.usage.remaining()
    }

    /// Returns the time until the same cost is admitted, if nothing else is charged meanwhile.
    ///
    /// Rounded up to the tick of the store's clock, zero for an admission, and `None` if the cost
    /// can never fit.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        if self.retry_after == NEVER { None } else { Some(Duration::from_nanos(self.retry_after)) }
    }

    /// Returns the time until the key has fully recovered: see [`Usage::reset_after`].
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.usage.reset_after()
    }

    /// Returns which of the policy's limits decided: see [`Usage::limit_index`].
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.usage.limit_index()
    }

    /// Returns where the decision was made.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }
}

/// How far a key's permits are used up at one moment.
///
/// Under several limits it describes one of them: the limit that refused, with the longest wait; or
/// for an admission or a peek, the limit with the fewest permits left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    limit: u64,
    remaining: u64,
    /// In nanoseconds.
    reset_after: u64,
    limit_index: u8,
}

impl Usage {
    const NONE: Self = Self::new(0, 0, Duration::ZERO);

    /// Returns the usage of a policy's only limit.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Self { limit, remaining, reset_after: nanos(reset_after), limit_index: 0 }
    }

    /// Replaces the time until the key has fully recovered, after time has passed.
    #[must_use]
    pub const fn with_reset_after(self, reset_after: Duration) -> Self {
        Self { reset_after: nanos(reset_after), ..self }
    }

    /// Sets which limit this usage describes: an index into
    /// [`Policy::limits`](crate::Policy::limits), lowered to the last that a policy can have.
    #[must_use]
    pub const fn of_limit(self, index: usize) -> Self {
        const LAST: usize = MAX_LIMITS - 1;
        #[expect(clippy::cast_possible_truncation, reason = "the last index fits")]
        let limit_index = if index < LAST { index as u8 } else { LAST as u8 };
        Self { limit_index, ..self }
    }

    /// Returns the usage that describes an admission or a peek under several limits: the one with
    /// the fewest permits left, and among equals the one that recovers last.
    #[must_use]
    pub fn of_fewest_left(usages: impl IntoIterator<Item = Self>) -> Self {
        let key = |usage: &Self| (usage.remaining, Reverse(usage.reset_after));
        usages.into_iter().min_by_key(key).unwrap_or(Self::NONE)
    }

    /// Returns the usage that describes a refusal under several limits: the one with the longest
    /// wait, where `None` is the longest, and the last among equals.
    #[must_use]
    pub fn of_longest_wait(waits: impl IntoIterator<Item = (Option<Duration>, Self)>) -> Self {
        let longest = waits.into_iter().max_by_key(|(wait, _)| wait.unwrap_or(Duration::MAX));
        longest.map_or(Self::NONE, |(_, usage)| usage)
    }

    /// Returns the most permits that the key can ever take at once: the quota's burst, or the
    /// highest ceiling of a slot in a paced window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many permits the key could take now if there were no waiters, rounded down.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how many permits are charged and not yet recovered, rounded up, at most the limit.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.limit.saturating_sub(self.remaining)
    }

    /// Returns the time until the key has fully recovered, if nothing else is charged meanwhile.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }

    /// Returns the index, in [`Policy::limits`](crate::Policy::limits), of the limit that this usage
    /// describes.
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.limit_index as usize
    }
}

/// Returns a time in nanoseconds, at most 584 years.
const fn nanos(time: Duration) -> u64 {
    let nanos = time.as_nanos();
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit was compared before")]
    if nanos < u64::MAX as u128 { nanos as u64 } else { u64::MAX }
}
