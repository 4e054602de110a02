//! The sliding window by sub-windows.

use alloc::format;
use core::fmt;

use super::{Ledger, ledger::Pace, window_without_burst};
use crate::{Error, ErrorKind, Quota};

/// Into how many slots a sliding window is cut, and how these count.
///
/// ```
/// use limiter_core::algorithm::Slots;
///
/// assert_eq!(Slots::strict(60)?.to_string(), "60 slots");
/// assert_eq!(Slots::loose(10)?.paced().to_string(), "10 slots loose paced");
/// assert!(Slots::strict(0).is_err());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    number: u32,
    loose: bool,
    paced: bool,
}

impl Slots {
    /// The most slots.
    pub const MAX: u32 = 10_000;

    /// Returns `number` slots of which one more than these counts: the present one, as far as it
    /// has gone, and as many before it.
    ///
    /// No trailing window admits more than the quota's permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless `number` is 1 to [`Slots::MAX`].
    pub fn strict(number: u32) -> Result<Self, Error> {
        if (1..=Self::MAX).contains(&number) {
            return Ok(Self { number, loose: false, paced: false });
        }
        let message = format!("a window of {number} slots: use 1 to {}", Self::MAX);
        Err(Error::new(ErrorKind::InvalidSetting, message))
    }

    /// Returns `number` slots of which as many count, the present one among them.
    ///
    /// Permits come back one slot earlier than in a strict window, so that a trailing window can
    /// admit up to twice the quota's permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless `number` is 1 to [`Slots::MAX`].
    pub fn loose(number: u32) -> Result<Self, Error> {
        Ok(Self { loose: true, ..Self::strict(number)? })
    }

    /// Gives each slot a ceiling of its own, so that traffic is spread evenly over the window.
    ///
    /// The ceilings differ by one at most, and sum to the quota's permits. A cost above the highest
    /// of them never fits.
    #[must_use]
    pub const fn paced(self) -> Self {
        Self { paced: true, ..self }
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether only as many slots count as the window has.
    #[must_use]
    pub const fn is_loose(&self) -> bool {
        self.loose
    }

    /// Returns whether each slot has a ceiling of its own.
    #[must_use]
    pub const fn is_paced(&self) -> bool {
        self.paced
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loose, paced) = (if self.loose { " loose" } else { "" }, self.paced);
        write!(f, "{} slots{loose}{}", self.number, if paced { " paced" } else { "" })
    }
}

impl Ledger {
    /// Returns the sliding window by sub-windows: permits are counted by slot, and leave the sum
    /// slot by slot.
    ///
    /// Slots lie on a grid from the timestamp zero: in memory, from when the limiter was made. Where the window can't be cut evenly, each
    /// slot is rounded up to a whole microsecond.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{
    ///     Cost, Quota, Timestamp,
    ///     algorithm::{Algorithm, Entries, Ledger, Slots},
    /// };
    ///
    /// let windows = Ledger::sub_windows(&Quota::per_minute(2)?, Slots::strict(6)?)?;
    /// let (mut state, start) = (Entries::default(), Timestamp::ZERO);
    /// assert!(windows.decide(&mut state, start, Cost::new(2)?).is_admitted());
    /// // Six slots of 10 s, and the present one.
    /// assert_eq!(windows.wait(&state, start, Cost::ONE), Some(Duration::from_secs(70)));
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota has a burst other than its permits, or if a slot
    /// would be rounded up by more than a thousandth.
    pub fn sub_windows(quota: &Quota, slots: Slots) -> Result<Self, Error> {
        window_without_burst(quota)?;
        let number = u64::from(slots.number);
        let window = u64::try_from(quota.window().as_micros()).unwrap_or(u64::MAX);
        let slot = window.div_ceil(number);
        if (slot * number - window) * 1_000 > window {
            return Err(Error::new(
                ErrorKind::InvalidQuota,
                format!("a quota of {quota} in {slots}: the window can't be cut so finely"),
            ));
        }
        let mut ledger = Self::new(quota.permits(), slot * number * 1_000, slot * 1_000);
        if !slots.loose {
            ledger = ledger.strict();
        }
        if slots.paced {
            ledger = ledger.paced(Pace { permits: quota.permits(), slots: number });
        }
        Ok(ledger)
    }
}
