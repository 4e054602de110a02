//! The sliding counter: two counts, the older of which fades.

use core::time::Duration;

use super::{Algorithm, Charge, Mark, window_without_burst};
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
    /// In nanoseconds, like the window.
    start: u64,
    /// That of the quota by which the counts were taken.
    window: u64,
    current: u64,
    previous: u64,
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
        Ok(Self { limit: quota.permits(), window: nanos(quota.window()) })
    }

    /// Returns how much of the window has passed, zero for one that is yet to come.
    fn elapsed(state: &Counts, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(state.start)
    }

    /// Returns how many permits the previous window still counts for, rounded up, when `elapsed`
    /// of the current one has passed.
    fn faded(state: &Counts, elapsed: u64) -> u64 {
        let left = u128::from(state.window.saturating_sub(elapsed));
        let window = u128::from(state.window).max(1);
        whole((u128::from(state.previous) * left).div_ceil(window))
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
}

impl Algorithm for SlidingCounter {
    type State = Counts;

    fn advance(&self, state: &mut Counts, now: Timestamp, promised: Timestamp) {
        let latest = now.max(promised).as_nanos();
        if state.window != self.window {
            // Of another quota: all that still counts, counts anew from now on.
            let counted =
                state.current.saturating_add(Self::faded(state, Self::elapsed(state, now)));
            let expired = Self::elapsed(state, now) >= state.window.saturating_mul(2);
            let current = if expired { 0 } else { counted };
            *state = Counts { start: now.as_nanos(), window: self.window, current, previous: 0 };
        }
        state.start = state.start.min(latest);
        state.current = state.current.min(self.limit);
        state.previous = state.previous.min(self.limit);
        match Self::elapsed(state, now) / self.window {
            0 => {}
            1 => {
                state.start += self.window;
                (state.current, state.previous) = (0, state.current);
            }
            _ => (state.current, state.previous) = (0, 0),
        }
        if state.current == 0 && Self::faded(state, Self::elapsed(state, now)) == 0 {
            // Fresh: the next window begins with its first use.
            *state = Counts { start: now.as_nanos(), window: self.window, current: 0, previous: 0 };
        }
    }

    fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let Counts { start, current, previous, .. } = *state;
        let room = self.limit.checked_sub(cost.get())?;
        let fits_at = if current <= room {
            start.saturating_add(self.fades_to(room - current, previous))
        } else {
            // In the next window, where this one is the previous.
            start.saturating_add(self.window).saturating_add(self.fades_to(room, current))
        };
        Some(Duration::from_nanos(fits_at.saturating_sub(now.as_nanos())))
    }

    fn charge(&self, state: &mut Counts, at: Timestamp, cost: Cost) -> Mark {
        self.advance(state, at, at);
        state.current = state.current.saturating_add(cost.get());
        Mark::one(state.start)
    }

    fn refund(&self, state: &mut Counts, _now: Timestamp, charge: &Charge, permits: u64) {
        let permits = permits.min(charge.cost.get());
        let window = charge.mark.word();
        if window == state.start {
            state.current = state.current.saturating_sub(permits);
        } else if window.checked_add(self.window) == Some(state.start) {
            state.previous = state.previous.saturating_sub(permits);
        }
    }

    fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let elapsed = Self::elapsed(state, now);
        let counted = state.current.saturating_add(Self::faded(state, elapsed));
        let windows = if state.current > 0 { 2 } else { u64::from(counted > 0) };
        let end = state.start.saturating_add(self.window.saturating_mul(windows));
        let reset = if windows == 0 { 0 } else { end.saturating_sub(now.as_nanos()) };
        let remaining = self.limit.saturating_sub(counted);
        Usage::new(self.limit, remaining, Duration::from_nanos(reset))
    }
}

fn nanos(window: Duration) -> u64 {
    whole(window.as_nanos())
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
