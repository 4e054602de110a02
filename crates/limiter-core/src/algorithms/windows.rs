//! Counters of whole windows: the fixed window, the aligned window and the sliding counter.

use core::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::refunded::{Refunded, most_chargeable};
use crate::{
    Cost, Quota, Timestamp, Usage,
    charge::Charge,
    ticks::{LAST, nanos, whole},
};

/// A counter that starts anew with each window; of a sliding counter, the count of the window before
/// fades meanwhile.
///
/// Two windows' permits can be taken around the end of a fixed or aligned window, so a trailing
/// window can admit up to `2 * permits`. The sliding counter is exact if the previous window's
/// permits were taken evenly. If they were taken at its end, a trailing window can admit up to
/// `2 * permits - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    kind: WindowKind,
    limit: u64,
    /// In nanoseconds, like all times here.
    length: u64,
    /// How far ahead of now permits may be promised.
    horizon: u64,
}

/// When windows open, and whether they fade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// A window opens with the first permit after the last one ended.
    Fixed,
    /// Windows open at multiples of their length.
    Aligned,
    /// Windows follow each other from a key's first use on. The previous window counts by the part of
    /// it that a window ending now would still cover.
    Sliding,
}

impl Windows {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(kind: WindowKind, quota: &Quota, horizon: Duration) -> Self {
        let length = whole(quota.window().as_nanos());
        let horizon = whole(horizon.as_nanos()).min(LAST - length);
        Self { kind, limit: quota.permits(), length, horizon }
    }

    fn fades(&self) -> bool {
        self.kind == WindowKind::Sliding
    }

    fn is_aligned(&self) -> bool {
        self.kind == WindowKind::Aligned
    }

    /// Returns when a window ends that opens at `at`.
    fn end_from(&self, at: u64) -> u64 {
        if self.is_aligned() { (at / self.length + 1) * self.length } else { at + self.length }
    }

    /// Returns how far ahead of now the newest window can end.
    fn latest_end(&self) -> u64 {
        // A full count that replaces an impossible one fills the next aligned window, too.
        let start = if self.is_aligned() { self.horizon.max(self.length) } else { self.horizon };
        self.length + start
    }

    /// Returns when the newest window begins. Nothing is charged before.
    fn begin_at(&self, state: &Counts) -> u64 {
        let newest = state.newest();
        if newest.current == 0 { 0 } else { newest.end.saturating_sub(self.length) }
    }

    /// Returns when a window will not count any more.
    fn fresh_at(&self, window: &Window) -> u64 {
        match (window.current, window.previous) {
            (0, 0) => 0,
            (1.., _) if self.fades() => window.end.saturating_add(self.length),
            _ => window.end,
        }
    }

    /// Returns the window that a moment is in, or the newest one if that has not begun: `None` if nothing counts any more.
    fn at(&self, state: &Counts, now: u64) -> Option<Window> {
        let newest = state.newest();
        if self.fresh_at(&newest) <= now {
            return None;
        }
        let end = newest.end.saturating_add(self.length);
        let next = Window { end, current: 0, previous: newest.current };
        Some(if now < newest.end { newest } else { next })
    }

    /// Returns how many permits count at a moment at which the newest window has begun, rounded up.
    fn counted(&self, state: &Counts, at: u64) -> u64 {
        let Some(Window { end, current, previous }) = self.at(state, at) else { return 0 };
        if previous == 0 {
            return current;
        }
        let left = u128::from(end.saturating_sub(at).min(self.length));
        let faded = u128::from(previous) * left;
        current.saturating_add(whole(faded.div_ceil(u128::from(self.length))))
    }

    /// Returns the first moment at which at most `room` permits of a window count.
    fn fits_in(&self, window: &Window, room: u64) -> u64 {
        let Window { end, current, previous } = *window;
        match room.checked_sub(current) {
            Some(room) => end.saturating_sub(self.left_when_faded(previous, room)),
            // In the next window, in which the current count fades.
            None if self.fades() => {
                end.saturating_add(self.length - self.left_when_faded(current, room))
            }
            None => end,
        }
    }

    /// Returns how much of a window is left when `count` permits of the one before count for no more than `room`.
    fn left_when_faded(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.length;
        }
        whole(u128::from(room) * u128::from(self.length) / u128::from(count))
    }

    /// Returns the count of a window that has a charge which was made in the window with this end, if it counts at `now`.
    fn count_of<'a>(&self, window: &'a mut Window, end: u64, now: u64) -> Option<&'a mut u64> {
        let fades_until = end.saturating_add(self.length);
        let count = match window.end.checked_sub(end)? {
            0 if end > now || self.fades() && fades_until > now => &mut window.current,
            later if self.fades() && later == self.length && window.end > now => {
                &mut window.previous
            }
            _ => return None,
        };
        Some(count).filter(|count| **count != FULL)
    }

    /// Makes a window the newest one at `now`.
    fn set_newest(&self, state: &mut Counts, window: Window, now: u64) {
        let Counts(windows) = state;
        match windows.last_mut() {
            Some(newest) if newest.end == window.end => *newest = window,
            newest => {
                // The last one stays also if it has ended, because the clock may step back to it.
                let last = newest.copied();
                windows.retain(|it| Some(*it) == last || self.fresh_at(it) > now);
                if windows.len() == MOST_WINDOWS {
                    windows.remove(0);
                    windows.iter_mut().take(1).for_each(|first| first.current = FULL);
                }
                windows.push(window);
            }
        }
    }

    pub(super) fn is_possible(&self, state: &Counts, now: Timestamp) -> bool {
        state.newest().end.saturating_sub(nanos(now)) <= self.latest_end()
    }

    /// A window that has ended stays until a charge or a refund, because the clock may step back to it.
    pub(super) fn advance(&self, state: &mut Counts, now: Timestamp) -> bool {
        if self.is_possible(state, now) {
            return false;
        }
        let Window { current, previous, .. } = state.newest();
        let current = current.saturating_add(previous).max(self.limit);
        let end = self.end_from(nanos(now));
        // The present aligned window may be about to end.
        let end = if self.is_aligned() { end + self.length } else { end };
        *state = Counts(smallvec![Window { end, current, previous: 0 }]);
        true
    }

    pub(super) fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (room, now) = (self.limit.checked_sub(cost.get())?, nanos(now));
        let from = now.max(self.begin_at(state));
        let fits_at = |window: Window| self.fits_in(&window, room).max(from);
        let fits_at = self.at(state, from).map_or(from, fits_at);
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    pub(super) fn charge(
        &self,
        state: &mut Counts,
        now: Timestamp,
        at: Timestamp,
        cost: Cost,
    ) -> u64 {
        let (now, at) = (nanos(now), nanos(at));
        let opened = Window { end: self.end_from(at), current: 0, previous: 0 };
        let window = self.at(state, at).unwrap_or(opened);
        let current = window.current.saturating_add(cost.get());
        self.set_newest(state, Window { current, ..window }, now);
        window.end
    }

    pub(super) fn most_chargeable(&self, state: &Counts, now: Timestamp) -> u64 {
        let now = nanos(now);
        if self.begin_at(state) > now {
            return 0;
        }
        most_chargeable(self.limit, self.counted(state, now), state.newest().current)
    }

    pub(super) fn give_back(
        &self,
        state: &mut Counts,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let Counts(windows) = state;
        let (permits, mut back) = (permits.min(charge.cost.get()), 0);
        for count in windows.iter_mut().filter_map(|it| self.count_of(it, charge.mark, nanos(now)))
        {
            let taken = permits.min(*count);
            *count -= taken;
            back = back.max(taken);
        }
        // Also of a window that has begun, because the clock may step back to before it.
        while windows.len() > 1 && windows.last().is_some_and(|newest| newest.current == 0) {
            windows.pop();
        }
        Refunded::of(charge, back)
    }

    pub(super) fn usage(&self, state: &Counts, moment: Timestamp) -> Usage {
        let now = nanos(moment);
        let from = now.max(self.begin_at(state));
        let room = self.limit.saturating_sub(self.counted(state, from));
        let remaining = if from <= now { room } else { 0 };
        Usage::new(self.limit, remaining, self.fresh_after(state, moment))
    }

    pub(super) fn horizon(&self) -> Duration {
        Duration::from_nanos(self.horizon)
    }

    pub(super) fn reach(&self) -> Duration {
        Duration::from_nanos(self.latest_end() + if self.fades() { self.length } else { 0 })
    }

    pub(super) fn fresh_after(&self, state: &Counts, now: Timestamp) -> Duration {
        Duration::from_nanos(self.fresh_at(&state.newest()).saturating_sub(nanos(now)))
    }
}

/// A key's windows, the newest last. Fresh has none.
///
/// The newest one decides. It may be reserved, and not have begun. Those before it are kept, because they decide again if
/// all of its permits are refunded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(SmallVec<[Window; 2]>);

/// The most windows of a key.
const MOST_WINDOWS: usize = 4;

/// The permits that were taken in a window, and in the one before. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// When it ends.
    end: u64,
    /// The permits taken in this window.
    current: u64,
    /// The permits taken in the window before, if they fade: zero otherwise.
    previous: u64,
}

/// The count of the oldest window of a state after an older one was dropped, because only [`MOST_WINDOWS`] are kept. The
/// window admits nothing more, and a refund of a charge in it gives back nothing.
const FULL: u64 = u64::MAX;

impl Counts {
    /// Returns the window that decides, which counts nothing in a fresh state.
    fn newest(&self) -> Window {
        self.0.last().copied().unwrap_or_default()
    }
}
