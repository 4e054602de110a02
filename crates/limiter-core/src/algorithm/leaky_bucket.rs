//! The leaky bucket, as a meter and as a queue: GCRA by two other names.

use super::Gcra;
use crate::{Error, Quota};

impl Gcra {
    /// Returns a leaky bucket as a meter: each permit raises the level by one, the level leaks at
    /// the rate of `leak`, and what would raise it above `capacity` is refused.
    ///
    /// # Errors
    ///
    /// As [`Gcra::token_bucket`], which is its mirror image.
    pub fn leaky_bucket(capacity: u64, leak: Quota) -> Result<Self, Error> {
        Self::token_bucket(capacity, leak)
    }

    /// Returns a leaky bucket as a queue: the quota's burst passes at once, further permits are
    /// given out evenly at its rate, each with a delay, while no more than `depth` of them wait.
    ///
    /// A quota with a burst of one spaces everything evenly.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Gcra, Tat}};
    ///
    /// let queue = Gcra::leaky_queue(2, &Quota::per_second(10)?.with_burst(1)?)?;
    /// let (mut state, now) = (Tat::default(), Timestamp::ZERO);
    /// let mut delay = || {
    ///     let (_, charge) = queue.reserve(&mut state, now, Cost::ONE, Duration::MAX);
    ///     charge.map(|charge| charge.at.saturating_since(now).as_millis())
    /// };
    /// assert_eq!([delay(), delay(), delay(), delay()], [Some(0), Some(100), Some(200), None]);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Gcra::new`].
    pub fn leaky_queue(depth: u64, outflow: &Quota) -> Result<Self, Error> {
        Ok(Self::new(outflow)?.with_depth(depth))
    }
}
