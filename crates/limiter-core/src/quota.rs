//! How much is allowed.

mod share;

use alloc::format;
use core::time::Duration;

use crate::{Error, ErrorKind};

const DAY: Duration = Duration::from_secs(86_400);

/// A number of permits per window, and how many of them may be taken at once.
///
/// The constructors' names say the window: `per_second(5)` is five permits in each second. The
/// burst equals the permits of one window unless [`Quota::with_burst`] says otherwise.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::Quota;
///
/// let steady = Quota::per_second(5)?;
/// assert_eq!((steady.permits(), steady.window(), steady.burst()), (5, Duration::from_secs(1), 5));
///
/// let bursty = Quota::per(1_000, Duration::from_secs(3_600))?.with_burst(50)?;
/// assert_eq!(bursty, "1_000/h burst 50".parse()?);
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// # Notation
///
/// Permits, a slash, a time, and a burst if it differs from the permits: `5/s`, `10/500ms`,
/// `1_000/h`, `3/2d`, `100/min burst 20`. A time is a whole number, left out if it is one, and a
/// unit: `ms`, `s` (or `sec`, `second`), `min` (`m`, `minute`), `h` (`hour`) or `d` (`day`). Spaces
/// may stand around the slash and before the unit, and `_` between digits.
///
/// A quota prints in this notation, as short as it can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// At least 1.
    permits: u64,
    /// Whole milliseconds, from 1 to `MAX_WINDOW`.
    window: Duration,
    /// At least 1, and recovered within `MAX_RECOVERY`.
    burst: u64,
}

impl Quota {
    /// The longest window: 366 days.
    pub const MAX_WINDOW: Duration = DAY.saturating_mul(366);

    /// The longest time that a spent burst may take to recover: 1,830 days, five long years.
    pub const MAX_RECOVERY: Duration = DAY.saturating_mul(5 * 366);

    /// Returns a quota of `permits` in each second.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero.
    pub fn per_second(permits: u64) -> Result<Self, Error> {
        Self::per(permits, Duration::from_secs(1))
    }

    /// Returns a quota of `permits` in each minute.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero.
    pub fn per_minute(permits: u64) -> Result<Self, Error> {
        Self::per(permits, Duration::from_secs(60))
    }

    /// Returns a quota of `permits` in each hour.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero.
    pub fn per_hour(permits: u64) -> Result<Self, Error> {
        Self::per(permits, Duration::from_secs(3_600))
    }

    /// Returns a quota of `permits` in each day of 24 hours.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero.
    pub fn per_day(permits: u64) -> Result<Self, Error> {
        Self::per(permits, DAY)
    }

    /// Returns a quota of `permits` in each `window`, with a burst of `permits`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero, or if `window` is not a whole number of
    /// milliseconds from 1 ms to [`Quota::MAX_WINDOW`].
    pub fn per(permits: u64, window: Duration) -> Result<Self, Error> {
        if window.is_zero() {
            return invalid(format!("a window of {window:?}: use at least 1ms"));
        }
        if window > Self::MAX_WINDOW {
            return invalid(format!(
                "a window of {window:?}: use at most {} days",
                Self::MAX_WINDOW.as_secs() / DAY.as_secs()
            ));
        }
        if !window.subsec_nanos().is_multiple_of(1_000_000) {
            return invalid(format!("a window of {window:?}: use whole milliseconds"));
        }
        if permits == 0 {
            return invalid(format!("a quota of 0 permits per {window:?}: allow at least 1"));
        }
        Ok(Self { permits, window, burst: permits })
    }

    /// Sets the permits that can be taken at once from a fully recovered key, the first one
    /// included.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `burst` is zero, or so large that it would take longer than
    /// [`Quota::MAX_RECOVERY`] to recover.
    pub fn with_burst(mut self, burst: u64) -> Result<Self, Error> {
        if burst == 0 {
            return invalid(format!("a burst of 0 for a quota of {self}: use at least 1"));
        }
        let recovery = u128::from(burst) * self.window.as_nanos();
        let longest = u128::from(self.permits) * Self::MAX_RECOVERY.as_nanos();
        if recovery > longest {
            return invalid(format!(
                "a burst of {burst} for a quota of {self}: it would take longer than {} days to recover",
                Self::MAX_RECOVERY.as_secs() / DAY.as_secs()
            ));
        }
        self.burst = burst;
        Ok(self)
    }

    /// Returns the permits of one window.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns the window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Returns the permits that can be taken at once from a fully recovered key.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }
}

fn invalid(message: alloc::string::String) -> Result<Quota, Error> {
    Err(Error::new(ErrorKind::InvalidQuota, message))
}
