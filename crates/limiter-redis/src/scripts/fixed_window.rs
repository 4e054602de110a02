//! The fixed window: what `fixed_window.lua` is given, what its numbers mean, and its twin.

use std::time::Duration;

use limiter_core::{Cost, Quota, Usage, algorithm::Start};

use super::{
    Functions,
    single::{count, in_micros, micros, signed},
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
        quota: &["limit", "window", "offset"],
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

    pub(super) fn quota(&self) -> [i64; 3] {
        [signed(self.limit), self.window, self.offset]
    }

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
        [now + until_end, 0]
    }
}
