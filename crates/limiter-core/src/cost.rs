//! How many permits one request takes.

use core::{fmt, num::NonZeroU64};

use crate::{Error, ErrorKind};

/// The permits that one request takes: one or more.
///
/// ```
/// use limiter_core::Cost;
///
/// const EXPORT: Cost = Cost::of(10);
/// assert_eq!(Cost::new(5)?.get(), 5);
/// assert!(Cost::new(0).is_err());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU64);

impl Cost {
    /// One permit, the cost of an ordinary request.
    pub const ONE: Self = Self(NonZeroU64::MIN);

    /// Returns a cost of `permits`, for constants.
    ///
    /// # Panics
    ///
    /// If `permits` is zero.
    #[must_use]
    #[expect(clippy::expect_used, reason = "documented: a constant of zero permits")]
    #[track_caller]
    pub const fn of(permits: u64) -> Self {
        Self(NonZeroU64::new(permits).expect("a cost must be at least 1 permit"))
    }

    /// Returns a cost of `permits`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidCost`] if `permits` is zero.
    pub fn new(permits: u64) -> Result<Self, Error> {
        let fault = || Error::new(ErrorKind::InvalidCost, "invalid cost 0: it must be at least 1");
        NonZeroU64::new(permits).map(Self).ok_or_else(fault)
    }

    /// Returns the number of permits.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    pub(crate) const fn saturating_add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.get()))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
