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

    /// Continues at another pace, by which no more permits are left than before, and no fewer are used.
    pub(crate) fn change(&mut self, now: Instant, from: Pace, to: Pace) {
        let used = self.used_at(now, from);
        let left = from.burst() as f64 - used;
        let burst = to.burst() as f64;
        (self.used, self.at) = (used.max(burst - left).min(burst), now);
    }

    /// Counts so many requests at least, sent at any pace.
    pub(crate) fn take_at_least(&mut self, now: Instant, requests: u64, pace: Pace) {
        let burst = pace.burst() as f64;
        (self.used, self.at) = (self.used_at(now, pace).max((requests as f64).min(burst)), now);
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
