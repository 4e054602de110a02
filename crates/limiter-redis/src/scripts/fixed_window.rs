//! The fixed window: what `fixed_window.lua` is given, what its numbers mean, and its twin.

use std::time::Duration;

use limiter_core::{Cost, Quota, Usage, algorithm::Start};

use super::{
    Functions, Part,
    single::{count, doubles, in_micros, micros, signed},
};

/// A counter that starts anew with each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    limit: u64,
    /// In microseconds, like all times here.
    window: i64,
    /// How far the start of a window is before the time zero, or -1 for windows from the first use.
    offset: i64,
}

impl FixedWindow {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "fixed_window",
        quota: &["limit", "window", "offset", "is_alone"],
        form: "dddd",
        text: include_str!("fixed_window.lua"),
    };

    pub(super) fn new(quota: &Quota, start: Start) -> Self {
        let window = in_micros(quota.window());
        let offset = match start {
            Start::FirstUse => -1,
            Start::Aligned => super::EPOCH % window,
        };
        Self { limit: quota.permits(), window, offset }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the quota as it is packed, for a limit that is alone at its key or not.
    pub(super) fn packed(&self, is_alone: bool) -> Vec<u8> {
        doubles(&[signed(self.limit), self.window, self.offset, is_alone.into()])
    }

    pub(super) const PART: Part = Part {
        text: include_str!("fixed_window_several.lua"),
        form: "dd",
        state: "ends_N, taken_N",
        written: "now + lasts_N, count_N + cost",
        charged: "lasts_N, count_N + cost",
        found: "-left_N, count_N",
    };

    pub(super) const SHORT: &str = include_str!("fixed_window_check.lua");

    pub(super) fn usage(&self, [until_end, taken, _]: [i64; 3]) -> Usage {
        // Nothing is left of the present where a later window has begun.
        let is_present = until_end <= self.window;
        let remaining = if is_present { self.limit.saturating_sub(count(taken)) } else { 0 };
        Usage::new(self.limit, remaining, micros(until_end))
    }

    pub(super) fn wait(&self, [until_end, taken, _]: [i64; 3], cost: Cost) -> Option<Duration> {
        let room = self.limit.checked_sub(cost.get())?;
        let fits = if count(taken) <= room { until_end - self.window } else { until_end };
        Some(micros(fits))
    }

    pub(super) const fn mark(&self, [until_end, ..]: [i64; 3], now: i64) -> [i64; 2] {
        [now.saturating_add(until_end), 0]
    }
}

/// The twin: what `fixed_window.lua` does, in its words.
#[cfg(test)]
mod twin {
    use crate::scripts::twin::{Refund, Twin, doubles, from_doubles, split_digits};

    /// A quota, when a window ends, and the permits that were taken in it.
    pub(super) struct FixedWindow {
        limit: i128,
        window: i128,
        offset: i128,
        is_alone: bool,
        now: i128,
        ends: i128,
        count: i128,
    }

    impl super::FixedWindow {
        pub(crate) fn twin(&self, is_alone: bool) -> Box<dyn Twin> {
            let (window, offset) = (self.window.into(), self.offset.into());
            let limit = self.limit.into();
            Box::new(FixedWindow { limit, window, offset, is_alone, now: 0, ends: 0, count: 0 })
        }
    }

    impl FixedWindow {
        fn end_from(&self, at: i128) -> i128 {
            if self.offset < 0 {
                return at + self.window;
            }
            at + self.window - (at + self.offset) % self.window
        }
    }

    impl Twin for FixedWindow {
        fn read(&mut self, text: Option<&[u8]>, now: i128, latest: i128) -> bool {
            (self.now, self.ends, self.count) = (now, now, 0);
            let Some(text) = text else {
                return false;
            };
            let latest_end = match self.offset {
                ..0 => latest + self.window,
                _ => self.end_from(latest) + self.window,
            };
            let found = match str::from_utf8(text).ok().filter(|text| text.len() == 18) {
                Some(digits) => split_digits(digits, 3).map(|(ends, count)| [ends, count]),
                None => doubles(text),
            };
            let found = found.filter(|[_, count]| *count <= 1 << 52);
            let Some([ends, count]) = found else {
                (self.ends, self.count) = (self.end_from(now), self.limit);
                return true;
            };
            if ends <= now {
                return false;
            }
            (self.ends, self.count) = (ends.min(latest_end), count);
            ends > latest_end
        }

        fn wait(&mut self, cost: i128, from: i128) -> Option<i128> {
            let room = self.limit - cost;
            if room < 0 {
                return None;
            }
            let mut fits_at = self.ends;
            if self.count <= room || self.ends <= from {
                fits_at = self.ends - self.window;
            }
            Some((fits_at - from).max(0))
        }

        fn charge(&mut self, cost: i128, at: i128) {
            if self.ends <= at {
                (self.ends, self.count) = (self.end_from(at), cost);
            } else {
                self.count += cost;
            }
        }

        fn owe(&mut self, cost: i128, at: i128) {
            self.charge(cost, at);
            self.count = self.count.min(self.limit);
        }

        fn refund(&mut self, refund: &Refund) -> bool {
            if self.ends != refund.mark {
                return false;
            }
            self.count = (self.count - refund.permits).max(0);
            if self.count == 0 && self.ends - self.window <= self.now {
                self.ends = self.now;
            }
            false
        }

        fn write(&self) -> (Vec<u8>, i128) {
            let Self { ends, count, .. } = *self;
            let in_reach = (100_000_000_000_000..1_000_000_000_000_000).contains(&ends);
            if self.is_alone && count <= 999 && in_reach {
                return (format!("{ends}{count:03}").into_bytes(), ends);
            }
            (from_doubles(&[ends, count]), ends)
        }

        fn length(&self, text: &[u8]) -> usize {
            if text.len() == 18 && text.iter().all(u8::is_ascii_digit) { 18 } else { 16 }
        }

        fn numbers(&self) -> Vec<i128> {
            vec![self.ends - self.now, self.count]
        }
    }
}
