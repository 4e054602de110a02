//! The states of the algorithms with whole windows.

use smallvec::SmallVec;

use crate::ticks::whole;

/// A key's windows, one for each length under which it was charged. Fresh has none.
///
/// Each charge counts in every window, and each quota decides by the window of its own length. So a
/// longer window that other quotas have filled never refuses a shorter quota, and a charge never dates a
/// count anew, which would let two quotas in turn starve each other.
///
/// A window that is reserved while the one before it lasts follows it in the same length: a refund of all that
/// is reserved brings back the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub(super) SmallVec<[Window; 1]>);

/// The most windows of a key.
const MOST_WINDOWS: usize = 4;

/// The permits that were taken in a window, and in the one before. Times are in nanoseconds.
///
/// A window that has not begun was reserved when the one before it was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it ends.
    pub end: u64,
    /// How long it is, by the quota that opened it.
    pub length: u64,
    /// Since when it counts. By the clock, a window may begin earlier.
    pub since: u64,
    /// The shortest length whose quotas decide by this window: its own, unless a key has more lengths
    /// than windows.
    pub shortest: u64,
    /// How far ahead of now the quotas of these lengths can have left the end.
    pub reach: u64,
    /// The permits taken in this window.
    pub current: u64,
    /// The permits taken in the window before, if they fade: zero otherwise.
    pub previous: u64,
}

impl Window {
    pub(super) const fn start(&self) -> u64 {
        self.end.saturating_sub(self.length)
    }

    /// Returns whether a quota with windows of this length decides by this window.
    const fn serves(&self, length: u64) -> bool {
        self.shortest <= length && length <= self.length
    }

    /// Returns how many permits count at `now`, rounded up.
    pub(super) fn counted(&self, now: u64) -> u64 {
        if self.previous == 0 {
            return self.current;
        }
        let left = u128::from(self.end.saturating_sub(now).min(self.length));
        let faded = u128::from(self.previous) * left;
        self.current.saturating_add(whole(faded.div_ceil(u128::from(self.length))))
    }

    /// Returns the first moment at which at most `room` permits count.
    pub(super) fn fits_at(&self, room: u64, fades: bool) -> u64 {
        match room.checked_sub(self.current) {
            Some(room) => self.end.saturating_sub(self.left_when_faded(self.previous, room)),
            // In the next window, in which the current count fades.
            None if fades => {
                self.end.saturating_add(self.length - self.left_when_faded(self.current, room))
            }
            None => self.end,
        }
    }

    /// Returns how much of a window is left when `count` permits of the one before count for no
    /// more than `room`.
    fn left_when_faded(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.length;
        }
        whole(u128::from(room) * u128::from(self.length) / u128::from(count))
    }

    /// Returns when nothing will count any more.
    pub(super) const fn fresh_at(&self, fades: bool) -> u64 {
        match (self.current, self.previous) {
            // A window that has not begun, and whose permits were all refunded.
            (0, 0) => self.start(),
            (1.., _) if fades => self.end.saturating_add(self.length),
            _ => self.end,
        }
    }

    /// Returns the window that `now` is in, or this one if it has not begun: `None` if nothing counts any
    /// more.
    pub(super) fn at(mut self, now: u64, fades: bool) -> Option<Self> {
        if fades && self.end <= now {
            (self.since, self.end) = (self.end, self.end.saturating_add(self.length));
            (self.current, self.previous) = (0, self.current);
        }
        (self.fresh_at(fades) > now).then_some(self)
    }

    /// Returns the count that has a charge for this moment, which was made in a window with this end, by a
    /// quota of some length.
    pub(super) fn count_of(
        &mut self,
        charged_for: u64,
        (length, end): (u64, u64),
        fades: bool,
    ) -> Option<&mut u64> {
        if self.length == length {
            // The end tells its own window from one that opened after a reset.
            return match self.end.checked_sub(end)? {
                0 => Some(&mut self.current),
                later if fades && later == length => Some(&mut self.previous),
                _ => None,
            };
        }
        if charged_for >= self.end {
            None
        } else if charged_for >= self.start() {
            Some(&mut self.current)
        } else if charged_for >= self.start().saturating_sub(self.length) {
            Some(&mut self.previous)
        } else {
            None
        }
    }
}

/// A window without a length counts nothing.
impl FromIterator<Window> for Counts {
    fn from_iter<I: IntoIterator<Item = Window>>(windows: I) -> Self {
        Self(windows.into_iter().filter(|window| window.length > 0).collect())
    }
}

impl Counts {
    /// Returns the windows in the order in which they were added. Some may have ended.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.0
    }

    /// Returns the windows at `now`.
    pub(super) fn at(&self, now: u64, fades: bool) -> impl Iterator<Item = Window> {
        let windows = self.0.iter().filter(move |window| !self.is_succeeded(window, now));
        windows.filter_map(move |window| window.at(now, fades))
    }

    /// Returns when the last of the windows begins. Nothing is charged before what was reserved.
    pub(super) fn begin_at(&self) -> u64 {
        self.0.iter().map(Window::start).max().unwrap_or(0)
    }

    /// Returns the window at `now` by which quotas of this length decide: the last that is reserved.
    pub(super) fn own(&self, length: u64, now: u64, fades: bool) -> Option<Window> {
        let own = self.at(now, fades).filter(|window| window.serves(length));
        own.max_by_key(|window| window.end)
    }

    /// Returns the stored window that [`own`](Self::own) has returned, after it was added if there was none.
    pub(super) fn own_or_add(&mut self, length: u64, own: Window) -> Option<&mut Window> {
        if !self.0.iter().any(|window| window.serves(length) && window.end == own.end) {
            self.add(own);
        }
        self.0.iter_mut().filter(|window| window.serves(length)).max_by_key(|window| window.end)
    }

    /// Returns whether a window has ended, and the one that was reserved behind it has begun.
    fn is_succeeded(&self, window: &Window, now: u64) -> bool {
        let end = window.end.saturating_add(window.length);
        let is_next = |other: &Window| other.length == window.length && other.end == end;
        window.end <= now && self.0.iter().any(is_next)
    }

    /// Drops windows behind which a reserved one has begun.
    pub(super) fn drop_succeeded(&mut self, now: u64) {
        while let Some(index) = self.0.iter().position(|window| self.is_succeeded(window, now)) {
            self.0.remove(index);
        }
    }

    /// Drops all windows of a length but the last one.
    pub(super) fn drop_earlier(&mut self) {
        while let Some(index) = self.0.iter().position(|window| self.is_before_another(window)) {
            self.0.remove(index);
        }
    }

    /// Drops reserved windows that have not begun and have no permits, if the one before is known.
    pub(super) fn drop_refunded(&mut self, now: u64) {
        let is_refunded = |window: &Window| window.current == 0 && window.start() > now;
        while let Some(index) = self.0.iter().position(|window| {
            let is_known = |other: &Window| other.length == window.length && other.end < window.end;
            is_refunded(window) && self.0.iter().any(is_known)
        }) {
            self.0.remove(index);
        }
    }

    fn is_before_another(&self, window: &Window) -> bool {
        self.0.iter().any(|other| other.length == window.length && other.end > window.end)
    }

    /// Adds a window. If the key has too many, the first of the same length is dropped. If there is none, the
    /// window joins the next longer one, which has counted all that it has, or if it is the longest, the longest
    /// one joins it.
    fn add(&mut self, window: Window) {
        let Self(windows) = self;
        if windows.len() < MOST_WINDOWS {
            windows.push(window);
        } else if let Some(first) = windows.iter().position(|it| it.length == window.length) {
            windows.remove(first);
            windows.push(window);
        } else if let Some(longer) =
            windows.iter_mut().filter(|it| it.length > window.length).min_by_key(|it| it.length)
        {
            longer.shortest = window.length;
        } else if let Some(longest) = windows.iter_mut().max_by_key(|it| it.length) {
            *longest = Window { shortest: longest.shortest, ..window };
        }
    }
}
