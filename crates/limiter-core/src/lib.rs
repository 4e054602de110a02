//! Rate limiting as pure algorithms, with a bounded, thread-safe in-memory limiter.
//!
//! A [`Quota`] is a number of permits per window. A [`Policy`] gives it a name and an algorithm. A
//! limiter applies the policy to the state of a [`Key`] and returns a [`Decision`]:
//!
//! ```
//! use std::time::Duration;
//! use limiter_core::{MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(2)));
//!
//! assert!(limiter.check("alice").is_admitted());
//! assert!(limiter.check("alice").is_admitted());
//! let refusal = limiter.check("alice");
//! assert!(!refusal.is_admitted());
//! assert!(refusal.retry_after() <= Some(Duration::from_secs(30)));
//!
//! assert!(limiter.check("bob").is_admitted());
//! ```
//!
//! | next | where |
//! |---|---|
//! | which algorithm, with measurements and pictures | [`guide`] |
//! | which numbers: rate, burst, window | [`guide::choosing`] |
//! | tiers, waiting, refunds, several limits, configuration files | [`guide`](guide#several-limits) |
//! | what every limiter promises, in ten laws | [`guide::laws`] |
//! | several limiters, charged together or not at all | [`decide`] |
//! | keys that are refused for a time after too many failures | [`Blocks`] |
//! | how many requests of a key run at once, instead of how often they start | [`guide::in_flight`] |
//! | decisions in memory while a store fails | [`Fallback`] |
//! | code for any limiter, in memory or through a store | [`Limiter`], [`WaitingLimiter`] |
//! | an algorithm without a limiter, and without `std` | [`algorithms`] |
//!
//! # Features
//!
//! - `std` (default) adds `MemoryLimiter`, `InFlight` and the clocks. Without it the crate is
//!   `no_std` and needs only `alloc`.
//! - `serde` adds `Policies`, for configuration files, and `Serialize` and `Deserialize` for
//!   quotas, algorithms and costs. It does not need `std`.
//! - `tokio` makes `SystemClock` a `Timer`, so that `acquire` waits by tokio's timer.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(feature = "std"), expect(dead_code, reason = "limiters in memory use it"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod algorithm;
pub mod algorithms;
mod block;
mod charge;
#[cfg(feature = "std")]
mod clock;
#[cfg(feature = "serde")]
mod config;
mod cost;
mod decision;
mod error;
#[cfg(feature = "std")]
mod fallback;
mod future;
// Its programs need limiters in memory.
#[cfg(any(feature = "std", not(doctest)))]
pub mod guide;
mod in_flight;
mod joint;
mod joint_decision;
mod key;
mod limiter;
mod limiter_id;
#[cfg(feature = "std")]
mod memory;
mod notation;
mod on_store_failure;
mod pointers;
mod policy;
mod quota;
mod receipt;
mod slots;
#[cfg(feature = "std")]
mod sync;
mod ticks;
mod timestamp;
#[cfg(feature = "std")]
mod waiting;

#[doc(inline)]
pub use algorithm::Algorithm;
pub use block::{Block, Blocks};
#[cfg(feature = "std")]
pub use clock::{Clock, ManualClock, SystemClock, Timer};
#[cfg(feature = "serde")]
pub use config::Policies;
pub use cost::Cost;
pub use decision::{Decision, Source, Usage};
pub use error::{Error, ErrorKind};
#[cfg(feature = "std")]
pub use fallback::Fallback;
pub use future::LimiterFuture;
pub use in_flight::{
    Entry, HeldPermit, InFlightLimiter, InFlightPermit, Occupancy, check_in_flight,
};
#[cfg(feature = "std")]
pub use in_flight::{InFlight, InFlightBuilder, InFlightStats};
pub use joint::decide;
pub use joint_decision::JointDecision;
pub use key::Key;
pub use limiter::{Demand, Limiter, Store, WaitingLimiter};
pub use limiter_id::LimiterId;
#[cfg(feature = "std")]
pub use memory::{Builder, MemoryDemand, MemoryLimiter, OnFull};
pub use on_store_failure::OnStoreFailure;
pub use policy::{Limit, Policy};
pub use quota::Quota;
pub use receipt::{Receipt, Reservation};
#[doc(inline)]
pub use slots::Slots;
pub use timestamp::Timestamp;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
