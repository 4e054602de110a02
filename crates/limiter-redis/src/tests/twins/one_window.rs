//! Fixed windows, aligned windows and sliding counters as the scripts keep them: one window a key, of the
//! length of the quota that has charged last. In nanoseconds.

use std::time::Duration;

use limiter_core::{Cost, Quota, Timestamp, Usage, algorithms::WindowKind};

/// The latest time that is read.
const LAST: u64 = u64::MAX - (1 << 59);

/// A counter that starts anew with each window; of a sliding counter, the count of the window before fades
/// meanwhile.
pub(super) struct OneWindow {
    kind: WindowKind,
    limit: u64,
    window: u64,
    /// How far ahead of now the end of a window can be.
    reach: u64,
}

fn nanos(at: Timestamp) -> u64 {
    at.as_nanos().min(LAST)
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// A key's window, and the permits taken in it and in the one before. Fresh is all zero.
///
/// A window that has not begun was reserved when the one before it was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// When the current window ends, in nanoseconds.
    pub(super) end: u64,
    /// The length of both windows, by the quota that wrote them.
    pub(super) window: u64,
    /// How far ahead of now that quota can have left the end.
    pub(super) reach: u64,
    /// The permits taken in the current window.
    pub(super) current: u64,
    /// The permits taken in the window before, if they fade: zero otherwise.
    pub(super) previous: u64,
}

impl Counts {
    const fn start(&self) -> u64 {
        self.end.saturating_sub(self.window)
    }

    /// Returns how many permits count at `now`, rounded up.
    fn counted(&self, now: u64) -> u64 {
        if self.previous == 0 {
            return self.current;
        }
        let left = u128::from(self.end.saturating_sub(now).min(self.window));
        let faded = u128::from(self.previous) * left;
        self.current.saturating_add(whole(faded.div_ceil(u128::from(self.window))))
    }

    /// Returns how much of a window is left when `count` permits of the one before count for no
    /// more than `room`.
    fn left_when_faded(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.window;
        }
        whole(u128::from(room) * u128::from(self.window) / u128::from(count))
    }
}

impl OneWindow {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    pub(super) fn new(kind: WindowKind, quota: &Quota, horizon: Duration) -> Self {
        let window = whole(quota.window().as_nanos());
        let reach = window + whole(horizon.as_nanos()).min(LAST);
        Self { kind, limit: quota.permits(), window, reach }
    }

    fn fades(&self) -> bool {
        self.kind == WindowKind::Sliding
    }

    fn is_aligned(&self) -> bool {
        self.kind == WindowKind::Aligned
    }

    /// Returns when a window of this length ends that opens at `at`.
    fn end_from(&self, at: u64, window: u64) -> u64 {
        if self.is_aligned() { (at / window + 1) * window } else { at + window }
    }

    /// Returns the counts in the window that `now` is in, in nanoseconds.
    pub(super) fn at(&self, mut counts: Counts, now: u64) -> Counts {
        if self.fades() && counts.end <= now {
            counts.end = counts.end.saturating_add(counts.window);
            (counts.current, counts.previous) = (0, counts.current);
        }
        if self.fresh_at(&counts) <= now { Counts::default() } else { counts }
    }

    /// Returns when nothing will count any more.
    fn fresh_at(&self, counts: &Counts) -> u64 {
        match (counts.current, counts.previous) {
            // A window that has not begun, and whose permits were all refunded.
            (0, 0) => counts.start(),
            (1.., _) if self.fades() => counts.end.saturating_add(counts.window),
            _ => counts.end,
        }
    }
}

impl OneWindow {
    pub(super) fn is_possible(&self, state: &Counts, now: Timestamp) -> bool {
        state.end.saturating_sub(nanos(now)) <= state.reach
    }

    /// A full debt keeps the length and the counts of the quota that wrote the state, which may be
    /// larger. That of aligned windows fills the next one too: the present one may be about to end.
    ///
    /// A window that has ended stays until a charge or a refund, because the clock may step back to it.
    pub(super) fn advance(&self, state: &mut Counts, now: Timestamp) {
        if self.is_possible(state, now) {
            return;
        }
        let now = nanos(now);
        let end = self.end_from(now, state.window);
        state.end = if self.is_aligned() { end + state.window } else { end };
        state.reach = state.reach.max(state.end - now);
        state.current = state.current.saturating_add(state.previous).max(self.limit);
        state.previous = 0;
    }

    pub(super) fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let room = self.limit.checked_sub(cost.get())?;
        let state = self.at(*state, nanos(now));
        let Counts { end, window, current, previous, .. } = state;
        let fits_at = match room.checked_sub(current) {
            Some(room) => end.saturating_sub(state.left_when_faded(previous, room)),
            // In the next window, in which the current count fades.
            None if self.fades() => {
                end.saturating_add(window - state.left_when_faded(current, room))
            }
            None => end,
        };
        Some(Duration::from_nanos(fits_at.saturating_sub(nanos(now))))
    }

    /// Under another length, what counts now begins to count anew.
    pub(super) fn charge(&self, state: &mut Counts, at: Timestamp, cost: Cost) -> u64 {
        let at = nanos(at);
        let Self { window, reach, .. } = *self;
        let counts = self.at(*state, at);
        *state = if counts.window == window {
            Counts { reach, ..counts }
        } else {
            let (end, current) = (self.end_from(at, window), counts.counted(at));
            Counts { end, window, reach, current, previous: 0 }
        };
        state.current = state.current.saturating_add(cost.get());
        state.end
    }

    pub(super) fn give_back(
        &self,
        state: &mut Counts,
        now: Timestamp,
        (cost, end): (u64, u64),
        permits: u64,
    ) -> (u64, bool) {
        let now = nanos(now);
        let mut counts = self.at(*state, now);
        if counts.window != self.window {
            return (0, false);
        }
        let count = if end == counts.end {
            &mut counts.current
        } else if end.saturating_add(self.window) == counts.end {
            &mut counts.previous
        } else {
            return (0, false);
        };
        let back = permits.min(cost).min(*count);
        *count -= back;
        *state = self.at(counts, now);
        (back, back == cost)
    }

    pub(super) fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let now = nanos(now);
        let state = self.at(*state, now);
        let has_begun = state.start() <= now;
        let room = self.limit.saturating_sub(state.counted(now));
        let remaining = if has_begun { room } else { 0 };
        let reset_after = self.fresh_at(&state).saturating_sub(now);
        Usage::new(self.limit, remaining, Duration::from_nanos(reset_after))
    }

    /// A window by the clock may already be open when another one ends, so nothing is promised behind
    /// an aligned window of another length.
    pub(super) fn longest_delay(&self, state: &Counts, now: Timestamp) -> Duration {
        let state = self.at(*state, nanos(now));
        if self.is_aligned() && state.end > 0 && state.window != self.window {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.reach - self.window)
    }
}
