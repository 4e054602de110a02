//! The sliding counter: what `sliding_counter.lua` is given, and what its numbers mean. Its twin is
//! the algorithm of `limiter-core`.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Timestamp, Usage,
    algorithm::{Algorithm, Counts, SlidingCounter as Core},
};

use super::{
    Functions, Part,
    single::{count, doubles, in_micros, micros, signed, too_many},
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
        form: "dd",
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

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the quota as it is packed.
    pub(super) fn packed(&self) -> Vec<u8> {
        doubles(&[signed(self.limit), self.window])
    }

    pub(super) const PART: Part = Part {
        text: include_str!("sliding_counter_several.lua"),
        form: "dddd",
        state: "ends_N, newer_N, older_N, own_N",
        written: "now + left_N, current_N + cost, previous_N, window_N",
        charged: "left_N, current_N + cost, previous_N",
        found: "-left_N, current_N, previous_N",
    };

    pub(super) const SHORT: &str = include_str!("sliding_counter_check.lua");

    pub(super) fn usage(&self, numbers: [i64; 3]) -> Usage {
        let usage = self.algorithm.usage(&state(numbers), Timestamp::ZERO);
        Usage::new(usage.limit(), usage.remaining(), up(usage.reset_after()))
    }

    pub(super) fn wait(&self, numbers: [i64; 3], cost: Cost) -> Option<Duration> {
        self.algorithm.wait(&state(numbers), Timestamp::ZERO, cost).map(up)
    }

    pub(super) const fn mark(&self, [until, ..]: [i64; 3], now: i64) -> [i64; 2] {
        [now.saturating_add(until), 0]
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

/// The twin: the algorithm of `limiter-core`, over the texts that the script writes.
#[cfg(test)]
mod twin {
    use limiter_core::{
        Cost, Quota,
        algorithm::{Algorithm, Charge, Counts, SlidingCounter as Core},
    };

    use super::up;
    use crate::scripts::twin::{Refund, Twin, cost_of, doubles, from_doubles, moment, wait_of};

    /// A quota, and the counts of two windows. Its times are those of the script.
    pub(super) struct SlidingCounter {
        algorithm: Core,
        limit: i128,
        window: i128,
        now: i128,
        counts: Counts,
    }

    impl super::SlidingCounter {
        pub(crate) fn twin(&self) -> Box<dyn Twin> {
            let (limit, window) = (self.limit.into(), self.window.into());
            let (algorithm, counts) = (self.algorithm, Counts::default());
            Box::new(SlidingCounter { algorithm, limit, window, now: 0, counts })
        }
    }

    impl SlidingCounter {
        fn ends(&self) -> i128 {
            i128::from(self.counts.until().as_nanos() / 1_000)
        }

        fn counted(count: i128) -> u64 {
            u64::try_from(count.min(94_906_265)).unwrap()
        }
    }

    impl Twin for SlidingCounter {
        fn read(&mut self, text: Option<&[u8]>, now: i128, latest: i128) -> bool {
            (self.now, self.counts) = (now, Counts::default());
            let Some(text) = text else {
                self.algorithm.advance(&mut self.counts, moment(now), moment(now));
                return false;
            };
            let found = doubles(text).filter(|[_, _, _, length]| length % 1_000 == 0);
            let Some([ends, current, previous, length @ 1_000..=31_622_400_000_000]) = found else {
                let limit = Self::counted(self.limit);
                self.counts = Counts::new(moment(now + 2 * self.window), limit, 0);
                return true;
            };
            let latest_end = latest + 2 * length;
            let until = moment(ends.min(latest_end));
            self.counts = Counts::new(until, Self::counted(current), Self::counted(previous));
            let length = std::time::Duration::from_micros(u64::try_from(length).unwrap());
            let quota = Quota::per(1, length).expect("a window that a quota can have");
            let from = Core::new(&quota).unwrap();
            from.advance(&mut self.counts, moment(now), moment(latest));
            if i128::try_from(length.as_micros()) == Ok(self.window) {
                return ends > latest_end;
            }
            self.algorithm.adopt(&mut self.counts, &from, moment(now));
            let current = Self::counted(self.counts.current().into());
            self.counts = Counts::new(self.counts.until(), current, self.counts.previous());
            true
        }

        fn wait(&mut self, cost: i128, from: i128) -> Option<i128> {
            let wait = self.algorithm.wait(&self.counts, moment(from), cost_of(cost))?;
            Some(wait_of(up(wait)))
        }

        fn charge(&mut self, cost: i128, at: i128) {
            self.algorithm.charge(&mut self.counts, moment(at), cost_of(cost));
        }

        fn owe(&mut self, cost: i128, at: i128) {
            self.algorithm.owe(&mut self.counts, moment(at), cost_of(cost));
        }

        fn refund(&mut self, refund: &Refund) -> bool {
            let now = moment(self.now);
            // A charge of a fresh state at that moment has this mark.
            let charged_at = moment(refund.mark - 2 * self.window);
            let mark = self.algorithm.charge(&mut Counts::default(), charged_at, Cost::ONE);
            let (cost, at) = (cost_of(refund.cost), moment(refund.at));
            let charge = Charge { at, cost, mark, moved: refund.has_moved };
            let permits = u64::try_from(refund.permits).unwrap();
            self.algorithm.refund(&mut self.counts, now, &charge, permits)
        }

        fn write(&self) -> (Vec<u8>, i128) {
            let (ends, window) = (self.ends(), self.window);
            let (current, previous) = (self.counts.current(), self.counts.previous());
            (from_doubles(&[ends, current.into(), previous.into(), window]), ends)
        }

        fn length(&self, _: &[u8]) -> usize {
            32
        }

        fn numbers(&self) -> Vec<i128> {
            let (current, previous) = (self.counts.current(), self.counts.previous());
            vec![self.ends() - self.now, current.into(), previous.into()]
        }
    }
}
