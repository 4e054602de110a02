//! How long permits last, and what follows for the times of this process.

use std::time::Duration;

use limiter_core::{Error, Timestamp};

use crate::builder::in_range;

/// For how long a permit lasts in the store without renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry(pub(crate) Duration);

impl Expiry {
    pub(crate) const DEFAULT: Self = Self(Duration::from_secs(30));

    const RANGE: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_secs(3_600);

    /// The longest time of a call that renews or gives back permits, which nobody waits for.
    const LONGEST_CALL: Duration = Duration::from_secs(1);

    /// Returns an error that quotes a value if it is out of its range.
    pub(crate) fn check(self, deadline: Duration) -> Result<(), Error> {
        in_range(self.0, Self::RANGE, &format!("expiry of permits {:?}", self.0))?;
        let of_expiry = format!("deadline {deadline:?} of permits that expire after {:?}", self.0);
        in_range(deadline, Duration::ZERO..=self.period(), &of_expiry)
    }

    /// Returns when a permit is lost whose last request that succeeded was sent at `sent`: a fiftieth before the server
    /// may give its place to another one, because clocks run at different rates.
    pub(crate) fn ends(self, sent: Timestamp) -> Timestamp {
        sent.saturating_add(self.0 - self.0 / 50)
    }

    /// Returns the time between two renewals. A permit that was taken later is not renewed.
    pub(crate) fn period(self) -> Duration {
        self.0 / 3
    }

    /// Returns the longest time of a call that nobody waits for.
    pub(crate) fn call(self) -> Duration {
        self.period().min(Self::LONGEST_CALL)
    }

    /// Returns the time after a renewal that failed until the next one.
    pub(crate) fn pause(self) -> Duration {
        (self.0 / 30).min(Self::LONGEST_CALL)
    }

    /// Returns until when the server may count a permit of which the last request was sent at `attempted`.
    pub(crate) fn forgotten(self, attempted: Timestamp) -> Timestamp {
        attempted.saturating_add(self.0 + Self::LONGEST_CALL)
    }
}
