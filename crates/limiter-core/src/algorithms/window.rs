//! The state of the algorithms with whole windows.

use smallvec::SmallVec;

use crate::ticks::whole;

/// A key's windows, the newest last. Fresh has none.
///
/// The newest one decides. It may be reserved, and not have begun. Those before it are kept, because they decide again if
/// all of its permits are refunded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub(super) SmallVec<[Window; 2]>);

/// The most windows of a key.
const MOST_WINDOWS: usize = 4;

/// The permits that were taken in a window, and in the one before. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When it ends.
    pub end: u64,
    /// The permits taken in this window.
    pub current: u64,
    /// The permits taken in the window before, if they fade: zero otherwise.
    pub previous: u64,
}

impl Window {
    /// Returns how many permits count at `now`, rounded up.
    pub(super) fn counted(&self, now: u64, length: u64) -> u64 {
        if self.previous == 0 {
            return self.current;
        }
        let left = u128::from(self.end.saturating_sub(now).min(length));
        let faded = u128::from(self.previous) * left;
        self.current.saturating_add(whole(faded.div_ceil(u128::from(length))))
    }

    /// Returns the first moment at which at most `room` permits count.
    pub(super) fn fits_at(&self, room: u64, length: u64, fades: bool) -> u64 {
        match room.checked_sub(self.current) {
            Some(room) => self.end.saturating_sub(left_when_faded(self.previous, room, length)),
            // In the next window, in which the current count fades.
            None if fades => {
                self.end.saturating_add(length - left_when_faded(self.current, room, length))
            }
            None => self.end,
        }
    }

    /// Returns when nothing will count any more.
    pub(super) const fn fresh_at(&self, length: u64, fades: bool) -> u64 {
        match (self.current, self.previous) {
            (0, 0) => 0,
            (1.., _) if fades => self.end.saturating_add(length),
            _ => self.end,
        }
    }

    /// Returns the window that a moment is in, or this one if it has not begun: `None` if nothing counts any more.
    pub(super) fn at(self, now: u64, length: u64, fades: bool) -> Option<Self> {
        if self.fresh_at(length, fades) <= now {
            return None;
        }
        let next =
            Self { end: self.end.saturating_add(length), current: 0, previous: self.current };
        Some(if now < self.end { self } else { next })
    }

    /// Returns the count that has a charge which was made in the window with this end, if it counts at `now`.
    pub(super) fn count_of(
        &mut self,
        end: u64,
        now: u64,
        length: u64,
        fades: bool,
    ) -> Option<&mut u64> {
        let fades_until = end.saturating_add(length);
        let count = match self.end.checked_sub(end)? {
            0 if end > now || fades && fades_until > now => &mut self.current,
            later if fades && later == length && self.end > now => &mut self.previous,
            _ => return None,
        };
        Some(count).filter(|count| **count != FULL)
    }
}

/// The count of the oldest window of a state after an older one was dropped, because only [`MOST_WINDOWS`] are kept. The
/// window admits nothing more, and a refund of a charge in it gives back nothing.
const FULL: u64 = u64::MAX;

impl Counts {
    /// Returns the window that decides, which counts nothing in a fresh state.
    pub(super) fn newest(&self) -> Window {
        self.0.last().copied().unwrap_or_default()
    }

    /// Makes a window the newest one at `now`.
    pub(super) fn set_newest(&mut self, window: Window, now: u64, length: u64, fades: bool) {
        let Self(windows) = self;
        match windows.last_mut() {
            Some(newest) if newest.end == window.end => *newest = window,
            newest => {
                // The last one stays also if it has ended, because the clock may step back to it.
                let last = newest.copied();
                windows.retain(|it| Some(*it) == last || it.fresh_at(length, fades) > now);
                if windows.len() == MOST_WINDOWS {
                    windows.remove(0);
                    windows.iter_mut().take(1).for_each(|first| first.current = FULL);
                }
                windows.push(window);
            }
        }
    }

    /// Takes up to `permits` from the windows that count a charge in the window with this end, and returns how many.
    pub(super) fn take_back(
        &mut self,
        permits: u64,
        end: u64,
        now: u64,
        length: u64,
        fades: bool,
    ) -> u64 {
        let Self(windows) = self;
        let counts = windows.iter_mut().filter_map(|it| it.count_of(end, now, length, fades));
        let mut back = 0;
        for count in counts {
            let taken = permits.min(*count);
            *count -= taken;
            back = back.max(taken);
        }
        // Also of a window that has begun, because the clock may step back to before it.
        while windows.len() > 1 && windows.last().is_some_and(|newest| newest.current == 0) {
            windows.pop();
        }
        back
    }
}

/// The newest last.
impl FromIterator<Window> for Counts {
    fn from_iter<I: IntoIterator<Item = Window>>(windows: I) -> Self {
        Self(windows.into_iter().collect())
    }
}

/// Returns how much of a window is left when `count` permits of the one before count for no
/// more than `room`.
fn left_when_faded(count: u64, room: u64, length: u64) -> u64 {
    if count <= room {
        return length;
    }
    whole(u128::from(room) * u128::from(length) / u128::from(count))
}
