//! The sliding counter: two counts, the older of which fades.

use core::time::Duration;

use super::{Algorithm, Charge, Mark, nanos, window_without_burst};
use crate::{Cost, Error, Quota, Timestamp, Usage};

/// Two windows' counts in place of a log: the previous window counts by the part of it that a
/// window ending now would still cover.
///
/// That is exact if the previous window's permits were taken evenly. If they were taken at its end,
/// a trailing window can admit up to `2 * permits - 1`, and no more. Windows follow each other from
/// a key's first use on.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Counts, SlidingCounter}};
///
/// let counter = SlidingCounter::new(&Quota::per_minute(4)?)?;
/// let (mut state, start) = (Counts::default(), Timestamp::ZERO);
/// assert!(counter.decide(&mut state, start, Cost::new(4)?).is_admitted());
///
/// // In the next window, the four count for three after 15 s, and one more fits.
/// let wait = counter.wait(&state, start, Cost::ONE);
/// assert_eq!(wait, Some(Duration::from_secs(75)));
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    /// In nanoseconds.
    window: u64,
}

/// A key's window, and the permits that were taken in it and in the one before. Fresh is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// When the window after the current one ends, in nanoseconds: nothing counts any more.
    until: u64,
    current: u64,
    previous: u64,
}

impl Counts {
    /// Returns the permits taken in the current window and in the one before, and when the window
    /// after the current one ends: for a store that keeps states in a form of its own.
    #[must_use]
    pub const fn new(until: Timestamp, current: u64, previous: u64) -> Self {
        Self { until: until.as_nanos(), current, previous }
    }

    /// Returns when the window after the current one ends.
    #[must_use]
    pub const fn until(&self) -> Timestamp {
        Timestamp::from_nanos(self.until)
    }

    /// Returns the permits taken in the current window.
    #[must_use]
    pub const fn current(&self) -> u64 {
        self.current
    }

    /// Returns the permits taken in the window before.
    #[must_use]
    pub const fn previous(&self) -> u64 {
        self.previous
    }
}

impl SlidingCounter {
    /// Returns the algorithm for `quota`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if the quota has a burst other
    /// than its permits.
    pub fn new(quota: &Quota) -> Result<Self, Error> {
        window_without_burst(quota)?;
        Ok(Self { limit: quota.permits(), window: whole(quota.window().as_nanos()) })
    }

    /// Returns how much of a window has to pass until `count` permits of the one before count for
    /// no more than `room`.
    fn fades_to(&self, room: u64, count: u64) -> u64 {
        if count <= room {
            return 0;
        }
        let window = u128::from(self.window);
        whole(window - u128::from(room) * window / u128::from(count))
    }

    /// Returns the end of the window after one that starts now.
    const fn until(&self, now: u64) -> u64 {
        now.saturating_add(self.window.saturating_mul(2))
    }

    /// Returns how much of the window has passed, zero if it is yet to come.
    const fn elapsed(&self, state: &Counts, now: u64) -> u64 {
        self.until(now).saturating_sub(state.until)
    }

    /// Returns the counts in the window that `now` is in.
    fn at(&self, mut state: Counts, now: u64) -> Counts {
        match self.elapsed(&state, now) / self.window {
            0 => {}
            1 => {
                state.until = state.until.saturating_add(self.window);
                (state.current, state.previous) = (0, state.current);
            }
            _ => (state.current, state.previous) = (0, 0),
        }
        // One that is yet to begin has taken the place of the present one, which was full.
        let is_present = state.until <= self.until(now);
        if is_present && self.counted(&state, now) == 0 {
            // The next window begins with its first use.
            state = Counts { until: self.until(now), current: 0, previous: 0 };
        }
        state
    }

    /// Returns how many permits count in the window that `now` is in, rounded up.
    fn counted(&self, state: &Counts, now: u64) -> u64 {
        let left = u128::from(self.window.saturating_sub(self.elapsed(state, now)));
        let faded = (u128::from(state.previous) * left).div_ceil(u128::from(self.window));
        state.current.saturating_add(whole(faded))
    }

    /// Returns when nothing will count any more.
    const fn end(&self, state: &Counts, now: u64) -> u64 {
        match (state.current, state.previous) {
            // A window that is yet to begin.
            (0, 0) if state.until > self.until(now) => now + (state.until - self.until(now)),
            (0, 0) => now,
            (0, _) => state.until.saturating_sub(self.window),
            _ => state.until,
        }
    }
}

impl Algorithm for SlidingCounter {
    type State = Counts;

    fn advance(&self, state: &mut Counts, now: Timestamp, promised: Timestamp) {
        // From before a step back.
        let latest = self.until(nanos(now.max(promised)));
        state.until = state.until.min(latest);
        *state = self.at(*state, nanos(now));
    }

    fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let Counts { until, current, previous, .. } = *state;
        let room = self.limit.checked_sub(cost.get())?;
        // In this window, or in the next, where this one is the previous.
        let (windows_left, passed) = match room.checked_sub(current) {
            Some(room) => (2, self.fades_to(room, previous)),
            None => (1, self.fades_to(room, current)),
        };
        let since_start = nanos(now).saturating_add(self.window.saturating_mul(windows_left));
        let left = until.saturating_add(passed).saturating_sub(since_start);
        Some(Duration::from_nanos(left))
    }

    fn charge(&self, state: &mut Counts, at: Timestamp, cost: Cost) -> Mark {
        *state = self.at(*state, nanos(at));
        state.current = state.current.saturating_add(cost.get());
        Mark::one(state.until)
    }

    fn refund(&self, state: &mut Counts, _now: Timestamp, charge: &Charge, permits: u64) -> bool {
        let permits = permits.min(charge.cost.get());
        let until = charge.mark.word();
        if until == state.until {
            state.current = state.current.saturating_sub(permits);
        } else if until.checked_add(self.window) == Some(state.until) {
            state.previous = state.previous.saturating_sub(permits);
        }
        false
    }

    fn owe(&self, state: &mut Counts, at: Timestamp, cost: Cost) {
        self.charge(state, at, cost);
        state.current = state.current.min(self.limit);
    }

    fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let now = nanos(now);
        let state = self.at(*state, now);
        // Nothing is left of the present where a later window has begun.
        let is_present = state.until <= self.until(now);
        let room = self.limit.saturating_sub(self.counted(&state, now));
        let remaining = if is_present { room } else { 0 };
        let reset_after = Duration::from_nanos(self.end(&state, now).saturating_sub(now));
        Usage::new(self.limit, remaining, reset_after)
    }

    /// What still counts begins to count anew.
    fn adopt(&self, state: &mut Counts, from: &Self, now: Timestamp) {
        if self == from {
            return;
        }
        let now = nanos(now);
        let old = from.at(*state, now);
        let current = from.counted(&old, now);
        // A window that is yet to begin, after a full one, begins when it was to.
        let start = now.saturating_add(old.until.saturating_sub(from.until(now)));
        *state = Counts { until: self.until(start), current, previous: 0 };
    }
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
