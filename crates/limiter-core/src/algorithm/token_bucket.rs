//! The token bucket: GCRA by another name.

use super::Gcra;
use crate::{Error, Quota};

impl Gcra {
    /// Returns a token bucket that holds up to `capacity` tokens and is refilled at the rate of
    /// `refill`, continuously.
    ///
    /// A bucket's level and a [`Tat`](super::Tat) say the same: the tokens that are missing are
    /// the debt that drains. So there is one arithmetic.
    ///
    /// ```
    /// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Gcra, Tat}};
    ///
    /// let bucket = Gcra::token_bucket(3, Quota::per_second(1)?)?;
    /// let decision = bucket.decide(&mut Tat::default(), Timestamp::ZERO, Cost::new(2)?);
    /// assert_eq!((decision.is_admitted(), decision.remaining()), (true, 1));
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if `capacity` is zero or takes
    /// too long to refill ([`Quota::with_burst`]), or if the rate can't be held
    /// ([`Meter::new`](super::Meter::new)).
    pub fn token_bucket(capacity: u64, refill: Quota) -> Result<Self, Error> {
        Self::new(&refill.with_burst(capacity)?)
    }
}
