//! The sliding counter: two counts, the older of which fades.

use core::time::Duration;

use super::{Charge, LAST, Marks, Transition, nanos, whole};
use crate::{Cost, Quota, Timestamp, Usage};

/// Two windows' counts in place of a log: the previous window counts by the part of it that a
/// window ending now would still cover.
///
/// That is exact if the previous window's permits were taken evenly. If they were taken at its end,
/// a trailing window can admit up to `2 * permits - 1`, and no more. Windows follow each other from
/// a key's first use on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingCounter {
    limit: u64,
    /// In nanoseconds, like all times here.
    window: u64,
    /// How far ahead of now the end of a window can be.
    reach: u64,
}

/// A key's window, and the permits taken in it and in the one before. Fresh is all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// When the current window ends, in nanoseconds.
    pub end: u64,
    /// The length of both windows, by the quota that wrote them.
    pub window: u64,
    /// How far ahead of now that quota can have left the end.
    pub reach: u64,
    /// The permits taken in the current window.
    pub current: u64,
    /// The permits taken in the window before.
    pub previous: u64,
}

impl Counts {
    /// Returns the counts in the window that `now` is in.
    fn at(mut self, now: u64) -> Self {
        if self.end <= now {
            self.end = self.end.saturating_add(self.window);
            (self.current, self.previous) = (0, self.current);
        }
        // The next window opens with its first use.
        let counts = self.end > now && self.counted(now) > 0;
        if counts || self.start() > now { self } else { Self::default() }
    }

    /// Returns how many permits count at `now`, rounded up.
    fn counted(&self, now: u64) -> u64 {
        let left = u128::from(self.end.saturating_sub(now).min(self.window));
        let faded = u128::from(self.previous) * left;
        self.current.saturating_add(whole(faded.div_ceil(u128::from(self.window.max(1)))))
    }

    /// Returns how much of a window is left when `count` permits of the one before count for no
    /// more than `room`.
    fn left_when_faded(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.window;
        }
        whole(u128::from(room) * u128::from(self.window) / u128::from(count))
    }

    const fn start(&self) -> u64 {
        self.end.saturating_sub(self.window)
    }

    /// Returns when nothing will count any more.
    const fn fresh_at(&self) -> u64 {
        match (self.current, self.previous) {
            // A window that has not begun.
            (0, 0) => self.start(),
            (0, _) => self.end,
            _ => self.end.saturating_add(self.window),
        }
    }
}

impl SlidingCounter {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration) -> Self {
        let window = whole(quota.window().as_nanos());
        let reach = window + whole(horizon.as_nanos()).min(LAST);
        Self { limit: quota.permits(), window, reach }
    }

    const fn opened(&self, at: u64, current: u64) -> Counts {
        let Self { window, reach, .. } = *self;
        Counts { end: at + window, window, reach, current, previous: 0 }
    }
}

impl Transition for SlidingCounter {
    type State = Counts;

    fn is_possible(&self, state: &Counts, now: Timestamp) -> bool {
        state.end.saturating_sub(nanos(now)) <= state.reach
    }

    /// A full debt keeps the length and the counts of the quota that wrote the state, which may be
    /// larger.
    fn advance(&self, state: &mut Counts, now: Timestamp) {
        if self.is_possible(state, now) {
            *state = state.at(nanos(now));
        } else {
            state.end = nanos(now) + state.window;
            state.current = state.current.saturating_add(state.previous).max(self.limit);
            state.previous = 0;
        }
    }

    fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let room = self.limit.checked_sub(cost.get())?;
        let Counts { end, window, current, previous, .. } = *state;
        // In the current window, or in the next, in which the current one fades.
        let fits_at = match room.checked_sub(current) {
            Some(room) => end.saturating_sub(state.left_when_faded(previous, room)),
            None => end.saturating_add(window - state.left_when_faded(current, room)),
        };
        Some(Duration::from_nanos(fits_at.saturating_sub(nanos(now))))
    }

    /// Under another length, what counts now begins to count anew.
    fn charge(&self, state: &mut Counts, at: Timestamp, cost: Cost) -> Marks {
        let at = nanos(at);
        let counts = state.at(at);
        *state = if counts == Counts::default() {
            self.opened(at, 0)
        } else if counts.window == self.window {
            Counts { reach: self.reach, ..counts }
        } else {
            self.opened(at, counts.counted(at))
        };
        state.current = state.current.saturating_add(cost.get());
        Marks::one(state.end)
    }

    fn refund(&self, state: &mut Counts, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let (permits, end) = (permits.min(charge.cost.get()), charge.marks.first());
        if state.window != self.window {
            return 0;
        }
        let count = if end == state.end {
            &mut state.current
        } else if end.saturating_add(self.window) == state.end {
            &mut state.previous
        } else {
            return 0;
        };
        let back = permits.min(*count);
        *count -= back;
        *state = state.at(nanos(now));
        back
    }

    fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let now = nanos(now);
        let state = state.at(now);
        let has_begun = state.start() <= now;
        let room = self.limit.saturating_sub(state.counted(now));
        let remaining = if has_begun { room } else { 0 };
        let reset_after = Duration::from_nanos(state.fresh_at().saturating_sub(now));
        Usage::new(self.limit, remaining, reset_after)
    }

    fn longest_delay(&self, _state: &Counts) -> Duration {
        Duration::from_nanos(self.reach - self.window)
    }
}
