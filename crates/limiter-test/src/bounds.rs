//! The bound that each algorithm publishes, and the search for traffic that exceeds it.
//!
//! A bound is the most permits that are admitted in any trailing window, which is half-open: of two
//! moments exactly a window apart, it covers one.

pub mod adversary;
pub mod cases;
pub mod measure;
pub mod moves;

use std::time::Duration;

use limiter_core::{Algorithm, Limit, Quota};

/// Returns the most permits that `limit` admits in a trailing window as long as its quota's.
#[must_use]
pub fn published(limit: &Limit) -> u128 {
    let permits = u128::from(limit.quota().permits());
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::AlignedWindow => 2 * permits,
        Algorithm::SlidingCounter => 2 * permits - 1,
        Algorithm::SubWindows(slots) if slots.is_loose() && slots.is_paced() => {
            permits + permits.div_ceil(slots.number().into())
        }
        Algorithm::SubWindows(slots) if slots.is_loose() => 2 * permits,
        Algorithm::SubWindows(_) | Algorithm::SlidingLog => permits,
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
            drained(limit.quota(), limit.quota().window())
        }
    }
}

/// Returns the most that a debt that drains admits in any trailing `window`: the burst, and what
/// the rate gives in a time that is shorter than the window, since that is half-open.
#[must_use]
pub fn drained(quota: &Quota, window: Duration) -> u128 {
    let flow =
        (u128::from(quota.permits()) * window.as_nanos()).div_ceil(quota.window().as_nanos());
    u128::from(quota.burst()) + flow - 1
}
