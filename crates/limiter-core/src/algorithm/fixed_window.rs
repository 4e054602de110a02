//! The fixed window, in one 64-bit word a key.

use alloc::format;
use core::time::Duration;

use super::{Algorithm, Charge, LAST, Mark, window_without_burst};
use crate::{Cost, Error, ErrorKind, Quota, Timestamp, Usage};

/// A counter that starts anew with each window.
///
/// The cheapest algorithm to explain: so many permits until the window ends, then as many again.
/// Two windows' permits can be taken around the end of one, so a trailing window can admit up to
/// `2 * permits`.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, FixedWindow, Start, Window}};
///
/// let window = FixedWindow::new(&Quota::per_minute(2)?, Start::FirstUse)?;
/// let (mut state, now) = (Window::default(), Timestamp::ZERO);
/// assert!(window.decide(&mut state, now, Cost::new(2)?).is_admitted());
/// let refusal = window.decide(&mut state, now, Cost::ONE);
/// assert_eq!(refusal.retry_after(), Some(Duration::from_secs(60)));
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    /// In units of the layout, rounded up.
    window: u64,
    start: Start,
    /// What the clock showed at the timestamp zero, in nanoseconds: zero where that is all one.
    origin: u64,
    layout: Layout,
}

/// When a key's window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// With the first permit that is taken after the last window has ended.
    FirstUse,
    /// At each multiple of the window since the start of the clock: with a
    /// [`SystemClock`](crate::SystemClock), a minute starts at second 0, and a day at 0:00 UTC.
    Aligned,
}

/// A key's window: when it ends, and how many permits were taken in it. Fresh is zero.
///
/// The end stands in the high bits, in units of time; the count in the low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window(u64);

/// How a window's end and count share the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    count_bits: u32,
    /// In nanoseconds, more than zero.
    unit: u64,
}

/// How far the ends of windows that start with the first use reach from the timestamp zero: 36
/// years. Time stands still there.
const REACH: u64 = (1 << 60) - 1;

impl FixedWindow {
    /// Returns the algorithm for `quota`.
    ///
    /// Windows that start with the first use are counted in units of less than a thousandth of the
    /// window, and of one nanosecond for up to 15 permits, of 64 ns for up to 1,023: a window
    /// starts at the unit's start, and has a whole number of units.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota has a burst other than its permits, or so many
    /// permits that a count and an end don't fit into the word: at 8,000,000 a second all do.
    pub fn new(quota: &Quota, start: Start) -> Result<Self, Error> {
        window_without_burst(quota)?;
        let layout = Layout::of(quota, start);
        let coarsest = match start {
            Start::FirstUse => nanos(quota) / 1_000,
            Start::Aligned => u64::MAX,
        };
        if layout.unit < layout.finest_unit(start) || layout.unit > coarsest {
            return Err(Error::new(
                ErrorKind::InvalidQuota,
                format!(
                    "a quota of {quota}: so many permits can't be counted in so short a window; \
                     allow fewer, or use a token bucket"
                ),
            ));
        }
        let window = nanos(quota).div_ceil(layout.unit);
        Ok(Self { limit: quota.permits(), window, start, origin: 0, layout })
    }

    /// Returns what the clock shows at `now`, early enough that windows can still end in the word.
    /// Time stands still there.
    const fn shown(&self, now: Timestamp) -> u64 {
        let shown = now.as_nanos().saturating_add(self.origin);
        let last = self.layout.last_end().saturating_sub(4 * self.window);
        let last = last.saturating_mul(self.layout.unit);
        let last = if last < LAST { last } else { LAST };
        if shown < last { shown } else { last }
    }

    /// Returns `now` in units, rounded down.
    const fn units(&self, now: Timestamp) -> u64 {
        self.shown(now) / self.layout.unit
    }

    /// Returns how long it is from `now` until a moment in units.
    const fn until(&self, units: u64, now: Timestamp) -> u64 {
        units.saturating_mul(self.layout.unit).saturating_sub(self.shown(now))
    }

    /// Returns the first moment of a window that ends at `end`.
    const fn start_of(&self, end: u64) -> u64 {
        end.saturating_sub(self.window)
    }

    /// Returns when a window ends that is entered at `now`, both in units.
    const fn end_from(&self, now: u64) -> u64 {
        match self.start {
            Start::FirstUse => now + self.window,
            Start::Aligned => (now / self.window + 1) * self.window,
        }
    }
}

impl Algorithm for FixedWindow {
    type State = Window;

    #[inline]
    fn advance(&self, state: &mut Window, now: Timestamp, promised: Timestamp) {
        let (end, count) = self.layout.read(*state);
        let latest = self.units(now.max(promised));
        // From before a step back. Aligned, an end a window from now is none; the next one is.
        let latest_end = match self.start {
            Start::FirstUse => latest + self.window,
            Start::Aligned => self.end_from(latest) + self.window,
        };
        if end > latest_end {
            *state = self.layout.word(latest_end, count);
        }
    }

    #[inline]
    fn wait(&self, state: &Window, now: Timestamp, cost: Cost) -> Option<Duration> {
        let room = self.limit.checked_sub(cost.get())?;
        let (end, count) = self.layout.read(*state);
        let fits_at =
            if count <= room || end <= self.units(now) { self.start_of(end) } else { end };
        Some(Duration::from_nanos(self.until(fits_at, now)))
    }

    #[inline]
    fn charge(&self, state: &mut Window, at: Timestamp, cost: Cost) -> Mark {
        let now = self.units(at);
        let (end, count) = self.layout.read(*state);
        let (end, count) = if end <= now { (self.end_from(now), 0) } else { (end, count) };
        *state = self.layout.word(end, count.saturating_add(cost.get()));
        Mark::one(end)
    }

    fn owe(&self, state: &mut Window, at: Timestamp, cost: Cost) {
        self.charge(state, at, cost);
        let (end, count) = self.layout.read(*state);
        *state = self.layout.word(end, count.min(self.limit));
    }

    fn refund(&self, state: &mut Window, now: Timestamp, charge: &Charge, permits: u64) -> bool {
        let (end, count) = self.layout.read(*state);
        if end == charge.mark.word() {
            let count = count.saturating_sub(permits.min(charge.cost.get()));
            // A window that is yet to begin has taken the place of the present one, which was full.
            let is_present = self.start_of(end) <= self.units(now);
            let empty = count == 0 && is_present;
            *state = if empty { Window::default() } else { self.layout.word(end, count) };
        }
        false
    }

    #[inline]
    fn usage(&self, state: &Window, now: Timestamp) -> Usage {
        let (end, count) = self.layout.read(*state);
        if end <= self.units(now) {
            return Usage::new(self.limit, self.limit, Duration::ZERO);
        }
        // Nothing is left of the present where a later window has begun.
        let is_present = self.start_of(end) <= self.units(now);
        let remaining = if is_present { self.limit.saturating_sub(count) } else { 0 };
        Usage::new(self.limit, remaining, Duration::from_nanos(self.until(end, now)))
    }

    fn with_origin(&self, origin: Timestamp) -> Self {
        match self.start {
            Start::FirstUse => *self,
            Start::Aligned => Self { origin: origin.as_nanos(), ..*self },
        }
    }

    /// The window goes on, but not beyond the end that one of its own would have. One that is yet
    /// to begin, after a full one, begins when it was to.
    fn adopt(&self, state: &mut Window, from: &Self, now: Timestamp) {
        let (end, count) = from.layout.read(*state);
        if self == from || end <= from.units(now) {
            return;
        }
        let own_units = |units: u64| {
            let nanos = units.saturating_mul(from.layout.unit).saturating_sub(from.origin);
            nanos.saturating_add(self.origin).div_ceil(self.layout.unit)
        };
        let start = own_units(from.start_of(end)).max(self.units(now));
        let end = own_units(end);
        let end = if start > self.units(now) { start + self.window } else { end };
        let latest = start.saturating_add(self.window).min(self.layout.last_end());
        *state = self.layout.word(end.min(latest), count);
    }

    #[inline]
    fn is_fresh(&self, state: &Window, now: Timestamp) -> bool {
        self.layout.read(*state).0 <= self.units(now)
    }
}

impl Layout {
    fn of(quota: &Quota, start: Start) -> Self {
        let count_bits = u64::BITS - quota.permits().leading_zeros();
        let layout = Self { count_bits, unit: 1 };
        let unit = match start {
            Start::FirstUse => layout.finest_unit(start),
            // Windows end at its multiples only.
            Start::Aligned => nanos(quota),
        };
        Self { unit, ..layout }
    }

    /// Returns the finest unit in which all ends of windows fit beside the count.
    const fn finest_unit(self, start: Start) -> u64 {
        let range = match start {
            Start::FirstUse => REACH,
            // The clock may show any timestamp.
            Start::Aligned => u64::MAX,
        };
        (range >> (u64::BITS - self.count_bits)).saturating_add(1)
    }

    const fn read(self, word: Window) -> (u64, u64) {
        let mask = self.mask();
        (word.0 >> self.count_bits, word.0 & mask)
    }

    const fn word(self, end: u64, count: u64) -> Window {
        let mask = self.mask();
        Window(end << self.count_bits | if count < mask { count } else { mask })
    }

    const fn mask(self) -> u64 {
        (1 << self.count_bits) - 1
    }

    const fn last_end(self) -> u64 {
        u64::MAX >> self.count_bits
    }
}

fn nanos(quota: &Quota) -> u64 {
    u64::try_from(quota.window().as_nanos()).unwrap_or(u64::MAX)
}
