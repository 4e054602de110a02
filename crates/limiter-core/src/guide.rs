//! Which algorithm to use when, and how to use a limiter. [`choosing`] has the numbers, [`in_flight`] limits how many
//! requests run at once, and [`laws`] what every limiter promises.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in `limiter_tower::guide` and `limiter_redis::guide`.
//!
#![doc = include_str!("../docs/guide/which-algorithm.md")]
//!
//! # Measured
//!
#![doc = include_str!("../docs/comparison.md")]
//!
//! In the pictures below, each algorithm gets the same three kinds of traffic, one permit a request.
//! They show admitted and refused requests, and the permits admitted in the window that ends at each
//! moment. `cargo xtask plots` draws them.
//!
#![doc = include_str!("../docs/guide/gcra.md")]
//!
#![doc = include_str!("../docs/gcra.svg")]
//!
#![doc = include_str!("../docs/guide/leaky-queue.md")]
//!
#![doc = include_str!("../docs/leaky-queue.svg")]
//!
#![doc = include_str!("../docs/guide/fixed-window.md")]
//!
#![doc = include_str!("../docs/fixed-window.svg")]
//!
#![doc = include_str!("../docs/fixed-window-aligned.svg")]
//!
#![doc = include_str!("../docs/guide/sliding-counter.md")]
//!
#![doc = include_str!("../docs/sliding-counter.svg")]
//!
#![doc = include_str!("../docs/guide/sub-windows.md")]
//!
#![doc = include_str!("../docs/sub-windows.svg")]
//!
#![doc = include_str!("../docs/sub-windows-loose.svg")]
//!
#![doc = include_str!("../docs/sub-windows-paced.svg")]
//!
#![doc = include_str!("../docs/guide/sliding-log.md")]
//!
#![doc = include_str!("../docs/exact-log.svg")]
//!
#![doc = include_str!("../docs/guide/operations.md")]
//!
#![doc = include_str!("../docs/guide/two-quotas.md")]
//!
#![doc = include_str!("../docs/turns.md")]
//!
//! [families]: Policy::families
//! [`take_up_to`]: Limiter::take_up_to
//! [`charge`]: Limiter::charge
//! [`decide`]: crate::decide
//! [`sibling`]: Limiter::sibling

#[cfg(doc)]
use crate::{Limiter, ManualClock, Policy, Receipt, WaitingLimiter};

#[doc = include_str!("../docs/guide/choosing.md")]
///
/// [charge]: crate::Limiter::charge
pub mod choosing {}

#[doc = include_str!("../docs/guide/in-flight.md")]
///
/// [`InFlightLimiter`]: crate::InFlightLimiter
/// [`InFlightBuilder::max_waiting`]: crate::InFlightBuilder::max_waiting
/// [`InFlight::set_limit`]: crate::InFlight::set_limit
/// [`InFlight::stats`]: crate::InFlight::stats
pub mod in_flight {}

#[doc = include_str!("../docs/guide/laws.md")]
pub mod laws {}
