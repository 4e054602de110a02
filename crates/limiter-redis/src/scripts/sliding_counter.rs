//! The sliding counter: what `sliding_counter.lua` is given, and what its numbers mean. Its twin is
//! the algorithm of `limiter-core`.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Timestamp, Usage,
    algorithm::{Algorithm, Counts, SlidingCounter as Core},
};

use super::{
    Functions,
    single::{count, in_micros, micros, signed, too_many},
};

/// Two counts, the older of which fades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingCounter {
    algorithm: Core,
    limit: u64,
    /// In microseconds.
    window: i64,
}

impl SlidingCounter {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "sliding_counter",
        quota: &["limit", "window"],
        text: include_str!("sliding_counter.lua"),
    };

    /// Its square is the largest below 2^53.
    const MAX_PERMITS: u64 = 94_906_265;

    pub(super) fn new(quota: &Quota) -> Result<Self, Error> {
        if quota.permits() > Self::MAX_PERMITS {
            return Err(too_many(quota, Self::MAX_PERMITS));
        }
        let (limit, window) = (quota.permits(), in_micros(quota.window()));
        Ok(Self { algorithm: Core::new(quota)?, limit, window })
    }

    pub(super) fn quota(&self) -> [i64; 2] {
        [signed(self.limit), self.window]
    }

    pub(super) fn usage(&self, numbers: [i64; 3]) -> Usage {
        let usage = self.algorithm.usage(&state(numbers), Timestamp::ZERO);
        Usage::new(usage.limit(), usage.remaining(), up(usage.reset_after()))
    }

    pub(super) fn wait(&self, numbers: [i64; 3], cost: Cost) -> Option<Duration> {
        self.algorithm.wait(&state(numbers), Timestamp::ZERO, cost).map(up)
    }

    pub(super) const fn mark(&self, [until, ..]: [i64; 3], now: i64) -> [i64; 2] {
        [now + until, 0]
    }
}

/// Returns the state as it is for a clock that begins at this moment.
fn state([until, current, previous]: [i64; 3]) -> Counts {
    let until = Timestamp::ZERO.saturating_add(micros(until));
    Counts::new(until, count(current), count(previous))
}

/// Rounds a time up to whole microseconds.
fn up(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
}
