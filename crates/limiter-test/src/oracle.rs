//! Reference limiters: slow and simple, so that they are obviously right.

pub(crate) mod admitted;
pub mod gcra;
mod window;

use std::time::Duration;

pub use admitted::Admitted;
use limiter_core::{Cost, Quota};
pub use window::Model;

/// A bucket that starts full with the burst, is refilled continuously with the quota's permits per
/// window, and never holds more than the burst.
///
/// Its level is a whole number of parts of which `parts_per_permit` make a permit, so that nothing
/// is ever rounded.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    level: u128,
    capacity: u128,
    parts_per_permit: u128,
    parts_per_nano: u128,
}

impl Bucket {
    /// Returns the full bucket of `quota`.
    #[must_use]
    pub fn exact(quota: &Quota) -> Self {
        Self::slower(quota, 0)
    }

    /// Returns the full bucket of `quota`, refilled slower than it asks by so many in 100,000.
    #[must_use]
    pub fn slower(quota: &Quota, by: u128) -> Self {
        let parts_per_permit = quota.window().as_nanos() * 100_000;
        let capacity = u128::from(quota.burst()) * parts_per_permit;
        let parts_per_nano = u128::from(quota.permits()) * (100_000 - by);
        Self { level: capacity, capacity, parts_per_permit, parts_per_nano }
    }

    /// Lets `time` pass.
    pub fn refill(&mut self, time: Duration) {
        let parts = time.as_nanos() * self.parts_per_nano;
        self.level = self.capacity.min(self.level + parts);
    }

    /// Returns whether `cost` permits were in the bucket `earlier`, if nothing was taken since.
    #[must_use]
    pub fn had(&self, cost: Cost, earlier: Duration) -> bool {
        let level = self.level.saturating_sub(earlier.as_nanos() * self.parts_per_nano);
        u128::from(cost.get()) <= level / self.parts_per_permit
    }

    /// Takes `cost` permits, or all that are there.
    pub fn take(&mut self, cost: Cost) {
        self.level = self.level.saturating_sub(u128::from(cost.get()) * self.parts_per_permit);
    }
}
