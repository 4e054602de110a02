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

/// The most permits that are admitted in any trailing window of some length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// In terms of `L`, the permits of the quota, `n`, the slots, `B`, the burst, `r`, the rate,
    /// and `W`, the window.
    pub formula: &'static str,
    /// The formula's value.
    pub permits: u128,
}

/// Returns the bound of `limit` in a trailing window as long as its quota's.
#[must_use]
pub fn published(limit: &Limit) -> Bound {
    let permits = u128::from(limit.quota().permits());
    let (formula, permits) = match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::AlignedWindow => ("2L", 2 * permits),
        Algorithm::SlidingCounter => ("2L - 1", 2 * permits - 1),
        Algorithm::SubWindows(slots) if slots.is_loose() && slots.is_paced() => {
            ("L + ceil(L / n)", permits + permits.div_ceil(slots.number().into()))
        }
        Algorithm::SubWindows(slots) if slots.is_loose() => ("2L", 2 * permits),
        Algorithm::SubWindows(_) | Algorithm::SlidingLog => ("L", permits),
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
            ("B + ceil(r*W) - 1", drained(limit.quota(), limit.quota().window()))
        }
    };
    Bound { formula, permits }
}

/// Returns the most that a debt that drains admits in any trailing `window`: the burst, and what
/// the rate gives in a time that is shorter than the window, since that is half-open.
#[must_use]
pub fn drained(quota: &Quota, window: Duration) -> u128 {
    let flow =
        (u128::from(quota.permits()) * window.as_nanos()).div_ceil(quota.window().as_nanos());
    u128::from(quota.burst()) + flow - 1
}
