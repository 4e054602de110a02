//! Rate limiting as pure algorithms, with a bounded, thread-safe in-memory limiter.
//!
//! A [`Quota`] is a number of permits per window. A [`Policy`] gives it a name and an algorithm. A
//! limiter applies the policy to the state of a [`Key`] and returns a [`Decision`]:
//!
//! ```
//! # #[cfg(feature = "std")] {
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
//! # }
//! ```
//!
//! The [`guide`] compares the algorithms and shows tiers, waiting, refunds and configuration files.
//! Code that runs on any limiter, in memory or through a store, takes a `&dyn` [`Limiter`] or
//! [`WaitingLimiter`].
//!
//! # Laws
//!
//! These hold for every algorithm and every store:
//!
//! 1. **Never over.** Admissions in any trailing window stay within the algorithm's published bound,
//!    under any interleaving of threads, processes and clients. An admission counts at the moment
//!    that it is charged for.
//! 2. **A refusal changes nothing.** The only write that a refusal or a peek may make replaces an
//!    impossible state, or restores a lost expiry.
//! 3. **`retry_after` is exact.** Without other traffic, a retry at that moment is admitted, and one
//!    tick of the store's clock earlier it is refused. It is `None` if the cost can never fit.
//! 4. **Absent = fresh = fully recovered.** A store forgets only states that equal a fresh one.
//!    Eviction never gives a key a new allowance.
//! 5. **Time goes forward per key.** A clock step or a corrupt value costs a key at most the capacity
//!    and horizon of the quota that its state names. It never gives a new allowance, and costs no
//!    other key anything.
//! 6. **All or nothing** over several limits. A refusal names the limit with the longest wait.
//! 7. **Refunds** give back at most the receipt's permits, once, and never lift a key above fresh.
//! 8. **Twins agree.** The Lua text and the Rust model of an algorithm give the same decision and
//!    state.
//! 9. **A changed quota keeps the debt.** A debt drains at the pace of the quota that charged it
//!    until another quota charges, and from then at that quota's pace. Quotas that take turns on one
//!    key stay within the largest burst and the highest rate among them. A handle enforces the policy
//!    that it reports.
//! 10. **No panic and no overflow** is reachable from a request, or from a value that a constructor
//!     accepted.
//!
//! # Features
//!
//! - `std` (default) adds `MemoryLimiter`, `UnkeyedLimiter` and `SystemClock`. Without it the crate is
//!   `no_std` and needs only `alloc`.
//! - `serde` adds `Policies`, for configuration files, and `Serialize` and `Deserialize` for
//!   policies, quotas, algorithms and costs. It does not need `std`.
//! - `tokio` makes `SystemClock` a `Timer`, so that `acquire` waits by tokio's timer.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[doc(hidden)]
pub mod algorithm;
mod clock;
#[cfg(feature = "serde")]
mod config;
mod cost;
mod decision;
mod error;
pub mod guide;
mod key;
mod limiter;
#[cfg(feature = "std")]
mod memory;
mod notation;
mod policy;
mod quota;
mod receipt;
mod sync;
#[cfg(feature = "std")]
mod thread_waker;
mod timestamp;

#[doc(inline)]
pub use algorithm::{Algorithm, Slots};
pub use clock::{Clock, ManualClock};
#[cfg(feature = "std")]
pub use clock::{SystemClock, Timer};
#[cfg(feature = "serde")]
pub use config::Policies;
pub use cost::Cost;
pub use decision::{Decision, Source, Usage};
pub use error::{Error, ErrorKind};
pub use key::Key;
pub use limiter::{Answer, Limiter, WaitingLimiter};
#[cfg(feature = "std")]
pub use memory::{Builder, MemoryLimiter, UnkeyedLimiter};
pub use policy::{Limit, Policy};
pub use quota::Quota;
pub use receipt::{Receipt, Reservation};
pub use timestamp::Timestamp;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
