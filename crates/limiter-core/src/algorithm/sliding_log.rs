//! The exact sliding log.

use alloc::format;

use super::{Ledger, window_without_burst};
use crate::{Error, ErrorKind, Quota};

impl Ledger {
    /// The most permits of a log: its memory is 16 bytes for each.
    pub const MAX_LOG: u64 = 1_000_000;

    /// Returns the exact sliding log: every permit is dated, and no trailing window, wherever it
    /// starts, admits more than the quota's permits.
    ///
    /// What is refused is not written, so a key has at most as many entries as the quota has
    /// permits; permits that are taken together are one entry.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Entries, Ledger}};
    ///
    /// let log = Ledger::sliding_log(&Quota::per_minute(2)?)?;
    /// let (mut state, start) = (Entries::default(), Timestamp::ZERO);
    /// let later = start.saturating_add(Duration::from_secs(20));
    /// assert!(log.decide(&mut state, start, Cost::ONE).is_admitted());
    /// assert!(log.decide(&mut state, later, Cost::ONE).is_admitted());
    /// assert_eq!(log.wait(&state, later, Cost::ONE), Some(Duration::from_secs(40)));
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota has more than [`Ledger::MAX_LOG`] permits, or a
    /// burst other than its permits.
    pub fn sliding_log(quota: &Quota) -> Result<Self, Error> {
        window_without_burst(quota)?;
        if quota.permits() > Self::MAX_LOG {
            let most = Self::MAX_LOG;
            return Err(Error::new(
                ErrorKind::InvalidQuota,
                format!("a quota of {quota} in a log: use at most {most} permits, or sub-windows"),
            ));
        }
        let window = u64::try_from(quota.window().as_nanos()).unwrap_or(u64::MAX);
        // A slot is a moment, and the one at which the window began does not count.
        Ok(Self::new(quota.permits(), window, 1))
    }
}
