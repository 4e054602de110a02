//! How much is allowed.

use alloc::format;
use core::time::Duration;

use crate::{Error, ErrorKind};

const DAY: Duration = Duration::from_secs(86_400);

/// A number of permits per window, and the largest burst.
///
/// The burst equals the permits of one window unless [`Quota::with_burst`] sets another. Constants
/// need no `?`. For values from outside the program, use [`Quota::new`], [`Quota::try_with_burst`]
/// or [`str::parse`].
///
/// ```
/// use std::time::Duration;
/// use limiter_core::Quota;
///
/// const STEADY: Quota = Quota::per_second(5);
/// assert_eq!((STEADY.permits(), STEADY.window(), STEADY.burst()), (5, Duration::from_secs(1), 5));
///
/// let bursty = Quota::new(1_000, Duration::from_secs(3_600))?.try_with_burst(50)?;
/// assert_eq!(bursty, "1_000/h burst 50".parse()?);
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// By GCRA, the time of one permit is rounded up: in memory to a quarter of a nanosecond, through Redis to a
/// microsecond or less. So a burst of 12 at 6/s recovers after two seconds and one nanosecond.
///
/// # Notation
///
/// Permits, a slash, a window, and the burst if it differs from the permits: `5/s`, `10/500ms`,
/// `1_000/h`, `3/2d`, `100/min burst 20`. A window is a whole number, which may be left out if it
/// is 1, and one unit: `ms`, `s` (`sec`, `second`), `min` (`m`, `minute`), `h` (`hour`) or `d`
/// (`day`); the words may be plural. Spaces may surround the slash and precede the unit, and `_`
/// may separate digits.
///
/// A quota prints in this notation, in its shortest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// At least 1, and at most `MAX_RATE` a second.
    permits: u64,
    /// Whole milliseconds, from 1 to `MAX_WINDOW`.
    window: Duration,
    /// At least 1, and recovered within `MAX_RECOVERY`.
    burst: u64,
}

impl Quota {
    /// The longest window: 366 days.
    pub const MAX_WINDOW: Duration = DAY.saturating_mul(366);

    /// The highest rate: 5,000,000 permits a second.
    pub const MAX_RATE: u64 = 5_000_000;

    /// The longest time that a spent burst may take to recover: 1,830 days.
    pub const MAX_RECOVERY: Duration = DAY.saturating_mul(5 * 366);

    /// Returns a quota of `permits` a second.
    ///
    /// # Panics
    ///
    /// If `permits` is zero, or the rate is above [`Quota::MAX_RATE`].
    #[must_use]
    #[track_caller]
    pub const fn per_second(permits: u64) -> Self {
        served(Self::checked(permits, Duration::from_secs(1)))
    }

    /// Returns a quota of `permits` a minute. Panics as [`Quota::per_second`] does.
    #[must_use]
    #[track_caller]
    pub const fn per_minute(permits: u64) -> Self {
        served(Self::checked(permits, Duration::from_secs(60)))
    }

    /// Returns a quota of `permits` an hour. Panics as [`Quota::per_second`] does.
    #[must_use]
    #[track_caller]
    pub const fn per_hour(permits: u64) -> Self {
        served(Self::checked(permits, Duration::from_secs(3_600)))
    }

    /// Returns a quota of `permits` a day of 24 hours. Panics as [`Quota::per_second`] does.
    #[must_use]
    #[track_caller]
    pub const fn per_day(permits: u64) -> Self {
        served(Self::checked(permits, DAY))
    }

    /// Returns a quota of `permits` per `window`, with a burst of `permits`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if `permits` is zero, if `window` is not a whole number of
    /// milliseconds from 1 ms to [`Quota::MAX_WINDOW`], or if the rate is above
    /// [`Quota::MAX_RATE`].
    pub fn new(permits: u64, window: Duration) -> Result<Self, Error> {
        Self::checked(permits, window)
            .map_err(|fault| invalid(&format!("{permits} per {window:?}"), fault))
    }

    /// Sets the burst: the permits that a fully recovered key can take at once, the first one
    /// included.
    ///
    /// # Panics
    ///
    /// If `burst` is zero, or takes longer than [`Quota::MAX_RECOVERY`] to recover.
    #[must_use]
    #[track_caller]
    pub const fn with_burst(self, burst: u64) -> Self {
        served(self.checked_burst(burst))
    }

    /// Sets the burst, as [`Quota::with_burst`] does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] where that panics.
    pub fn try_with_burst(self, burst: u64) -> Result<Self, Error> {
        self.checked_burst(burst).map_err(|fault| invalid(&format!("{self} burst {burst}"), fault))
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

    /// Returns the permits that a fully recovered key can take at once.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns a quota with a burst of `permits`, or which rule it breaks.
    pub(crate) const fn checked(permits: u64, window: Duration) -> Result<Self, &'static str> {
        let nanos = window.as_nanos();
        if nanos == 0 || nanos > Self::MAX_WINDOW.as_nanos() {
            return Err("the window must be from 1ms to 366d");
        }
        if !nanos.is_multiple_of(1_000_000) {
            return Err("the window must be a whole number of milliseconds");
        }
        if permits == 0 {
            return Err("permits must be at least 1");
        }
        if permits as u128 * 1_000_000_000 > Self::MAX_RATE as u128 * nanos {
            return Err("the rate must be at most 5,000,000 permits a second");
        }
        Ok(Self { permits, window, burst: permits })
    }

    /// Returns the quota with another burst, or which rule it breaks.
    pub(crate) const fn checked_burst(self, burst: u64) -> Result<Self, &'static str> {
        if burst == 0 {
            return Err("the burst must be at least 1");
        }
        let recovery = burst as u128 * self.window.as_nanos();
        if recovery > self.permits as u128 * Self::MAX_RECOVERY.as_nanos() {
            return Err("the burst must recover within 1,830 days; lower it or raise the rate");
        }
        Ok(Self { burst, ..self })
    }
}

fn invalid(quota: &str, fault: &str) -> Error {
    Error::invalid(ErrorKind::InvalidQuota, "quota", quota, fault)
}

#[expect(clippy::panic, reason = "documented: a constant that no limiter can serve")]
#[track_caller]
const fn served(quota: Result<Quota, &'static str>) -> Quota {
    match quota {
        Ok(quota) => quota,
        Err(fault) => panic!("{}", fault),
    }
}
