//! The permits of one host that this process has used, for when the limiter does not count them: its store has
//! failed, or the pace has changed.

use std::time::Duration;

use tokio::time::Instant;

use crate::pace::{PER_SECOND, Pace};

/// The permits that this process has used of a pace and its burst, and that have not recovered.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// At most the burst.
    used: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { used: 0.0, at: now }
    }

    /// Returns the time until a request may be sent at `pace`.
    pub(crate) fn wait(&self, now: Instant, pace: Pace) -> Duration {
        let missing = self.used_at(now, pace) + 1.0 - pace.burst() as f64;
        Duration::from_secs_f64(missing.max(0.0) / per_second(pace))
    }

    /// Counts a request.
    pub(crate) fn take(&mut self, now: Instant, pace: Pace) {
        let used = self.used_at(now, pace) + 1.0;
        (self.used, self.at) = (used.min(pace.burst() as f64), now);
    }

    /// Counts the only request so far again, unless it has not recovered.
    pub(crate) fn take_first(&mut self, now: Instant, pace: Pace) {
        (self.used, self.at) = (self.used_at(now, pace).max(1.0), now);
    }

    /// Lets the permits recover at `pace` until now, because the pace changes.
    pub(crate) fn settle(&mut self, now: Instant, pace: Pace) {
        (self.used, self.at) = (self.used_at(now, pace), now);
    }

    fn used_at(&self, now: Instant, pace: Pace) -> f64 {
        let recovered = now.saturating_duration_since(self.at).as_secs_f64() * per_second(pace);
        (self.used - recovered).clamp(0.0, pace.burst() as f64)
    }
}

/// At least a millionth.
fn per_second(pace: Pace) -> f64 {
    pace.rate().max(1) as f64 / PER_SECOND as f64
}
