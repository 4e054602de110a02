//! How a sliding window is cut into slots.

use alloc::{format, string::ToString};
use core::{fmt, time::Duration};

use crate::{Error, ErrorKind, ticks::whole};

/// Into how many slots a sliding window is cut, and how many of them count.
///
/// ```
/// use limiter_core::Slots;
///
/// const MINUTES: Slots = Slots::strict(60);
/// assert_eq!(MINUTES.to_string(), "60 slots");
/// assert_eq!(Slots::loose(10).paced().to_string(), "10 slots loose paced");
/// assert!(Slots::try_strict(0).is_err());
/// assert!(Slots::try_loose(1).is_err());
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

    /// Returns a window of `number` slots in which `number + 1` count: the present one, which is partial, and
    /// `number` before it. No trailing window admits more than the quota's permits.
    ///
    /// # Panics
    ///
    /// Unless `number` is from 1 to [`Slots::MAX`]. For a number from outside the program, use
    /// [`Slots::try_strict`].
    #[must_use]
    #[track_caller]
    pub const fn strict(number: u32) -> Self {
        assert!(number >= 1 && number <= Self::MAX, "invalid slots: use 1 to 10000");
        Self { number, loose: false, paced: false }
    }

    /// Returns a window of `number` slots in which `number` count, the present one included.
    ///
    /// Permits recover one slot earlier than in a strict window, so a trailing window can admit
    /// up to twice the quota's permits.
    ///
    /// # Panics
    ///
    /// As [`Slots::strict`], and if `number` is 1: a single loose slot is an aligned window. For a number
    /// from outside the program, use [`Slots::try_loose`].
    #[must_use]
    #[track_caller]
    pub const fn loose(number: u32) -> Self {
        assert!(
            number != 1,
            "invalid slots: a single loose slot is an aligned window; use that, or 2 slots"
        );
        Self { loose: true, ..Self::strict(number) }
    }

    /// Returns slots as [`Slots::strict`] does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] where that panics.
    pub fn try_strict(number: u32) -> Result<Self, Error> {
        if (1..=Self::MAX).contains(&number) {
            return Ok(Self::strict(number));
        }
        let fault = format!("use 1 to {}", Self::MAX);
        Err(Error::invalid(ErrorKind::InvalidSetting, "slots", &number.to_string(), fault))
    }

    /// Returns slots as [`Slots::loose`] does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] where that panics.
    pub fn try_loose(number: u32) -> Result<Self, Error> {
        if number == 1 {
            let fault = "a single loose slot is an aligned window; use that, or 2 slots";
            return Err(Error::invalid(ErrorKind::InvalidSetting, "slots", "1 loose", fault));
        }
        Ok(Self { loose: true, ..Self::try_strict(number)? })
    }

    /// Gives each slot a ceiling of its own, so that traffic is spread evenly over the window.
    ///
    /// The ceilings differ by at most one and sum to the quota's permits. A cost above the highest
    /// ceiling never fits.
    #[must_use]
    pub const fn paced(self) -> Self {
        Self { paced: true, ..self }
    }

    /// Returns whether a window can be cut into these slots, each rounded up by a thousandth at most.
    pub(crate) fn can_cut(&self, window: Duration) -> bool {
        let surplus = self.length(window) * self.number - window;
        surplus * 1_000 <= window
    }

    /// Returns the length of a slot of `window`, rounded up to whole microseconds.
    pub(crate) fn length(&self, window: Duration) -> Duration {
        let micros = window.as_micros().div_ceil(u128::from(self.number));
        Duration::from_micros(whole(micros))
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
