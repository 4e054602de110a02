//! Which algorithm to use when, and how to use a limiter. [`choosing`] has the numbers.
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
//! [`Policy::gcra`]: crate::Policy::gcra
//! [`Policy::sliding_log`]: crate::Policy::sliding_log
//! [`Policy::sub_windows`]: crate::Policy::sub_windows
//! [`Policy::fixed_window`]: crate::Policy::fixed_window
//! [`Policy::aligned_window`]: crate::Policy::aligned_window
//! [`Policy::sliding_counter`]: crate::Policy::sliding_counter
//! [`Policy::leaky_queue`]: crate::Policy::leaky_queue
//! [`Policy::several`]: crate::Policy::several
//! [`Policy::with_horizon`]: crate::Policy::with_horizon
//! [families]: crate::Policy::families
//! [`Receipt::keep`]: crate::Receipt::keep
//! [`Limiter`]: crate::Limiter
//! [`WaitingLimiter`]: crate::WaitingLimiter
//! [`ManualClock`]: crate::ManualClock

#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}
