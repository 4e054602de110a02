//! Which algorithm to use when, and how to use a limiter. [`choosing`] has the numbers, [`in_flight`] limits how many
//! requests run at once, and [`laws`] what every limiter promises.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in `limiter_tower::guide` and `limiter_redis::guide`.
//!
//! [`charge`]: crate::Limiter::charge
//! [`decide`]: crate::decide
//! [`Limiter`]: crate::Limiter
//! [`Limiter::charge`]: crate::Limiter::charge
//! [`ManualClock`]: crate::ManualClock
//! [`Policy::aligned_window`]: crate::Policy::aligned_window
//! [`Policy::all_of`]: crate::Policy::all_of
//! [`Policy::fixed_window`]: crate::Policy::fixed_window
//! [`Policy::gcra`]: crate::Policy::gcra
//! [`Policy::identities`]: crate::Policy::identities
//! [`Policy::leaky_queue`]: crate::Policy::leaky_queue
//! [`Policy::limits_reset_by`]: crate::Policy::limits_reset_by
//! [`Policy::scaled`]: crate::Policy::scaled
//! [`Policy::sliding_counter`]: crate::Policy::sliding_counter
//! [`Policy::sliding_log`]: crate::Policy::sliding_log
//! [`Policy::sub_windows`]: crate::Policy::sub_windows
//! [`Policy::with_horizon`]: crate::Policy::with_horizon
//! [`Receipt::keep`]: crate::Receipt::keep
//! [`reset`]: crate::Limiter::reset
//! [`sibling`]: crate::Limiter::sibling
//! [`take_up_to`]: crate::Limiter::take_up_to
//! [`WaitingLimiter`]: crate::WaitingLimiter
//! [families]: crate::Policy::families
// Above, because the first definition counts: the files' own ones are for their readers outside of rustdoc.
#![doc = include_str!("../docs/guide/which-algorithm.md")]
//!
//! # Measured
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
#![doc = include_str!("../docs/guide/changes.md")]

/// [charge]: crate::Limiter::charge
#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

/// [`InFlight::set_limit`]: crate::InFlight::set_limit
/// [`InFlight::stats`]: crate::InFlight::stats
/// [`InFlightBuilder::max_waiting`]: crate::InFlightBuilder::max_waiting
/// [`InFlightLimiter`]: crate::InFlightLimiter
#[doc = include_str!("../docs/guide/in-flight.md")]
pub mod in_flight {}

/// [`Limiter::charge`]: crate::Limiter::charge
#[doc = include_str!("../docs/guide/laws.md")]
pub mod laws {}
