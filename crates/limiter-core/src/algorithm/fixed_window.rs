//! The fixed window, opened by the first permit or by the clock.

use core::time::Duration;

use super::{Charge, LAST, Marks, Transition, nanos, whole};
use crate::{Cost, Quota, Timestamp, Usage};

/// A counter that starts anew with each window.
///
/// Two windows' permits can be taken around the end of one, so a trailing window can admit up to
/// `2 * permits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    /// In nanoseconds, like all times here.
    window: u64,
    /// How far ahead of now the end of a window can be.
    reach: u64,
    /// Whether windows open at multiples of their length.
    aligned: bool,
}

/// A key's window. Fresh is all zero.
///
/// A window that has not begun was reserved when the one before it was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When the window ends, in nanoseconds.
    pub end: u64,
    /// Its length, by the quota that wrote it.
    pub window: u64,
    /// How far ahead of now that quota can have left the end.
    pub reach: u64,
    /// The permits taken in it.
    pub count: u64,
}

impl Window {
    const fn start(&self) -> u64 {
        self.end.saturating_sub(self.window)
    }

    /// Returns when the key is fresh: a window whose permits all came back is, once it begins.
    const fn fresh_at(&self) -> u64 {
        if self.count == 0 { self.start() } else { self.end }
    }
}

impl FixedWindow {
    /// Returns the algorithm for `quota` with windows that the first permit opens, or with
    /// `aligned` ones. Permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration, aligned: bool) -> Self {
        let window = whole(quota.window().as_nanos());
        let reach = window + whole(horizon.as_nanos()).min(LAST);
        Self { limit: quota.permits(), window, reach, aligned }
    }

    /// Returns when a window ends that opens at `at`.
    const fn end_from(&self, at: u64) -> u64 {
        if self.aligned { (at / self.window + 1) * self.window } else { at + self.window }
    }

    const fn state(&self, end: u64, count: u64) -> Window {
        Window { end, window: self.window, reach: self.reach, count }
    }
}

impl Transition for FixedWindow {
    type State = Window;

    fn is_possible(&self, state: &Window, now: Timestamp) -> bool {
        state.end.saturating_sub(nanos(now)) <= state.reach
    }

    /// A full debt keeps the length and the count of the quota that wrote the state, which may be
    /// larger. That of aligned windows fills the next one too: the present one may be about to end.
    fn advance(&self, state: &mut Window, now: Timestamp) {
        if !self.is_possible(state, now) {
            let written = Self { window: state.window, ..*self };
            let end = written.end_from(nanos(now));
            state.end = if self.aligned { end + state.window } else { end };
            state.reach = state.reach.max(state.end - nanos(now));
            state.count = state.count.max(self.limit);
        } else if state.fresh_at() <= nanos(now) {
            *state = Window::default();
        }
    }

    fn wait(&self, state: &Window, now: Timestamp, cost: Cost) -> Option<Duration> {
        let room = self.limit.checked_sub(cost.get())?;
        let now = nanos(now);
        let fits_at = match state.end {
            end if end <= now => now,
            _ if state.count <= room => state.start(),
            end => end,
        };
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    /// Under another length the count stays, and the window ends as if it opened now.
    fn charge(&self, state: &mut Window, at: Timestamp, cost: Cost) -> Marks {
        let at = nanos(at);
        let count = if state.end <= at { 0 } else { state.count };
        let is_same = state.end > at && state.window == self.window;
        let end = if is_same { state.end } else { self.end_from(at) };
        *state = self.state(end, count.saturating_add(cost.get()));
        Marks::one(end)
    }

    fn refund(&self, state: &mut Window, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let is_own = state.end == charge.marks.first() && state.window == self.window;
        if !is_own || state.end <= nanos(now) {
            return 0;
        }
        let back = permits.min(charge.cost.get()).min(state.count);
        state.count -= back;
        // A window that has not begun replaced the present one, which was full.
        if state.fresh_at() <= nanos(now) {
            *state = Window::default();
        }
        back
    }

    fn usage(&self, state: &Window, now: Timestamp) -> Usage {
        let now = nanos(now);
        if state.end <= now {
            return Usage::new(self.limit, self.limit, Duration::ZERO);
        }
        let has_begun = state.start() <= now;
        let remaining = if has_begun { self.limit.saturating_sub(state.count) } else { 0 };
        let reset_after = state.fresh_at().saturating_sub(now);
        Usage::new(self.limit, remaining, Duration::from_nanos(reset_after))
    }

    /// A window by the clock may already be open when another one ends, so nothing is promised behind
    /// an aligned window of another length.
    fn longest_delay(&self, state: &Window) -> Duration {
        if self.aligned && state.end > 0 && state.window != self.window {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.reach - self.window)
    }
}
