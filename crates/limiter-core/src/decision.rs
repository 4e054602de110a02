//! What a limiter decides, and how far a key's permits are used up.

use core::{fmt, time::Duration};

use crate::ticks;

/// The most limits of one policy.
pub(crate) const MAX_LIMITS: usize = 8;

/// A limiter's decision for one key at one moment: an admission or a refusal.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_hour(3)));
/// let decision = limiter.check("alice");
/// assert!(decision.is_admitted());
/// assert_eq!((decision.burst(), decision.remaining()), (3, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request is limited only if its decision is acted on"]
pub struct Decision {
    admitted: bool,
    usage: Usage,
    /// In nanoseconds; [`NEVER`] if the cost can never fit.
    retry_after: u64,
    source: Source,
}

const NEVER: u64 = u64::MAX;

/// Where a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The limiter's own state, in memory or in the store.
    State,
    /// A cached denial that still holds. No call was sent to the store.
    Cache,
    /// Permits that this process has leased from the store. The usage is the store's at the time of the lease,
    /// with what is left of it here.
    Lease,
    /// No state, because the table of a limiter in memory has no free slot for the key. It is refused until
    /// one is free, or admitted and not counted: see [`Builder::on_full`](crate::Builder::on_full).
    FullTable,
    /// A limiter in this process's memory, because the store failed. Usage and waits are those of
    /// that limiter.
    Local,
}

impl Decision {
    /// Returns an admission that left `usage`, decided by the store.
    #[inline]
    pub const fn admitted(usage: Usage) -> Self {
        Self { admitted: true, usage, retry_after: 0, source: Source::State }
    }

    /// Returns a refusal at `usage`, decided by the store. `retry_after` is `None` if the cost can
    /// never fit.
    #[inline]
    pub const fn refused(usage: Usage, retry_after: Option<Duration>) -> Self {
        let retry_after = match retry_after {
            Some(wait) => nanos(wait),
            None => NEVER,
        };
        Self { admitted: false, usage, retry_after, source: Source::State }
    }

    /// Sets where the decision was made. The default is [`Source::State`].
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Returns whether the request may proceed: its permits were charged.
    #[must_use]
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Returns how far the key's permits are used up, after this decision.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the most permits that the key can ever take at once: see [`Usage::burst`].
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.usage.burst()
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
        match self.retry_after {
            NEVER => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
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
#[derive(Clone, Copy)]
pub struct Usage {
    limit: u64,
    figures: Figures,
    limit_index: u8,
}

#[derive(Clone, Copy)]
enum Figures {
    /// The permits that remain, and the time until the key has recovered, in nanoseconds.
    Known { remaining: u64, reset_after: u64 },
    /// A debt of GCRA and its increment, from which the figures are computed when they are read:
    /// otherwise a check takes a third longer (`cargo xtask bench memory`).
    Debt { debt: u64, increment: u64 },
}

/// Returns a time in nanoseconds, at most 584 years.
const fn nanos(time: Duration) -> u64 {
    let nanos = time.as_nanos();
    #[expect(clippy::cast_possible_truncation, reason = "checked")]
    if nanos < NEVER as u128 { nanos as u64 } else { NEVER - 1 }
}

impl Usage {
    const NONE: Self = Self::new(0, 0, Duration::ZERO);

    /// Returns the usage of a policy's only limit.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        let figures = Figures::Known { remaining, reset_after: nanos(reset_after) };
        Self { limit, figures, limit_index: 0 }
    }

    /// Returns the usage of a debt, in ticks.
    #[inline]
    pub(crate) const fn of_debt(limit: u64, debt: u64, increment: u64) -> Self {
        let figures = Figures::Debt { debt, increment };
        Self { limit, figures, limit_index: 0 }
    }

    /// Sets which limit this usage describes: an index into
    /// [`Policy::limits`](crate::Policy::limits).
    #[must_use]
    pub const fn with_limit_index(self, limit_index: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 8 limits")]
        let limit_index = limit_index as u8;
        Self { limit_index, ..self }
    }

    /// Returns the usage that describes an admission or a peek under several limits: the one with
    /// the fewest permits left, and among equals the one that recovers last.
    #[must_use]
    pub fn fewest_remaining(usages: impl IntoIterator<Item = Self>) -> Self {
        let mut usages = usages.into_iter();
        let mut fewest = usages.next().unwrap_or(Self::NONE);
        // A loop, because `min_by` moves usages through memory: a fifth of a check by several limits, by a benchmark of
        // `Policy::all_of` with two GCRA limits.
        for usage in usages {
            let later = || fewest.reset_after().cmp(&usage.reset_after());
            if usage.remaining().cmp(&fewest.remaining()).then_with(later).is_lt() {
                fewest = usage;
            }
        }
        fewest
    }

    /// Returns the usage that describes a refusal under several limits: the one with the longest
    /// wait, where `None` is the longest, and the last among equals.
    #[must_use]
    pub fn longest_wait(waits: impl IntoIterator<Item = (Option<Duration>, Self)>) -> Self {
        let longest = waits.into_iter().max_by_key(|(wait, _)| wait.unwrap_or(Duration::MAX));
        longest.map_or(Self::NONE, |(_, usage)| usage)
    }

    /// Returns the most permits that the key can ever take at once: the quota's burst, or the
    /// highest ceiling of a slot in a paced window.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.limit
    }

    /// Returns how many permits the key could take now if there were no waiters, rounded down.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        match self.figures {
            Figures::Known { remaining, .. } => remaining,
            Figures::Debt { debt, increment } => {
                self.limit.saturating_sub(debt.div_ceil(increment))
            }
        }
    }

    /// Returns how many permits are charged and not yet recovered, rounded up, at most the limit.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.limit.saturating_sub(self.remaining())
    }

    /// Returns the time until the key has fully recovered, if nothing else is charged meanwhile.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        match self.figures {
            Figures::Known { reset_after, .. } => Duration::from_nanos(reset_after),
            Figures::Debt { debt, .. } => ticks::time(debt),
        }
    }

    /// Returns the index, in [`Policy::limits`](crate::Policy::limits), of the limit that this usage
    /// describes.
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.limit_index as usize
    }
}

impl PartialEq for Usage {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.limit, it.remaining(), it.reset_after(), it.limit_index);
        key(self) == key(other)
    }
}

impl Eq for Usage {}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage")
            .field("limit", &self.limit)
            .field("remaining", &self.remaining())
            .field("reset_after", &self.reset_after())
            .field("limit_index", &self.limit_index)
            .finish()
    }
}
