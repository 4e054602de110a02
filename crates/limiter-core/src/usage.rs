//! How far a key's permits are used up.

use core::{cmp::Reverse, time::Duration};

use crate::Policy;

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

    /// Replaces how long it takes until the key has fully recovered, as when time has passed.
    #[must_use]
    pub const fn with_reset_after(self, reset_after: Duration) -> Self {
        Self { reset_after, ..self }
    }

    /// Returns this as the usage of one of several limits: `index` is the one's in
    /// [`Policy::limits`], or that of the last limit that a policy can have if it is above that.
    #[must_use]
    pub const fn of_limit(self, index: usize) -> Self {
        const LAST: usize = Policy::MAX_LIMITS - 1;
        #[expect(clippy::cast_possible_truncation, reason = "the last index fits")]
        let limit_index = if index < LAST { index as u8 } else { LAST as u8 };
        Self { limit_index, ..self }
    }

    /// Returns which of several limits' usages tells of all where nothing was refused: the one with
    /// the fewest permits left, and of those with as many, the one that takes the longest to
    /// recover. Of no limits, a usage of nothing.
    ///
    /// For stores that keep the states of several limits, as
    /// [`Several`](crate::algorithm::Several) does.
    #[must_use]
    pub fn of_fewest_left(usages: impl IntoIterator<Item = Self>) -> Self {
        let key = |usage: &Self| (usage.remaining, Reverse(usage.reset_after));
        usages.into_iter().min_by_key(key).unwrap_or(Self::NONE)
    }

    /// Returns which of several limits' usages tells of a refusal: the one with the longest wait,
    /// where `None` is the longest, and the last of those with the same. Of no limits, a usage of
    /// nothing.
    ///
    /// For stores that keep the states of several limits, as
    /// [`Several`](crate::algorithm::Several) does.
    #[must_use]
    pub fn of_longest_wait(waits: impl IntoIterator<Item = (Option<Duration>, Self)>) -> Self {
        let longest = waits.into_iter().max_by_key(|(wait, _)| wait.unwrap_or(Duration::MAX));
        longest.map_or(Self::NONE, |(_, usage)| usage)
    }

    const NONE: Self = Self::new(0, 0, Duration::ZERO);

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

    /// Returns which limit this tells of, as an index into [`Policy::limits`].
    #[must_use]
    pub const fn limit_index(&self) -> usize {
        self.limit_index as usize
    }
}
