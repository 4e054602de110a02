//! Rate limiting as pure algorithms, with a bounded, thread-safe in-memory limiter.
//!
//! A [`Quota`] says how much is allowed, a [`Policy`] gives it a name and an algorithm, a
//! [`Limiter`] applies it to a [`Key`] and answers with a [`Decision`]:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(2)?)?)?;
//!
//! assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
//! assert!(limiter.try_acquire("alice", Cost::ONE).is_admitted());
//! let refusal = limiter.try_acquire("alice", Cost::ONE);
//! assert!(!refusal.is_admitted());
//! assert!(refusal.retry_after() <= Some(std::time::Duration::from_secs(30)));
//!
//! assert!(limiter.try_acquire("bob", Cost::ONE).is_admitted());
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! Which algorithm to take, and what else there is: see the [`guide`]. To write code that a limiter
//! in memory serves as well as one in a store, take a `&dyn` [`Limiter`] or [`WaitingLimiter`].
//!
//! # What holds for every algorithm and every store
//!
//! 1. **Never over.** Admissions in any trailing window stay within the algorithm's published
//!    bound, however threads, processes and clients interleave.
//! 2. **A refusal changes nothing**: it charges nothing and makes no later wait longer.
//! 3. **`retry_after` is exact**: alone, a retry at that moment is admitted, and one tick of the
//!    store's clock earlier it is not. A cost that can never fit has none.
//! 4. **Absent = fresh = fully recovered.** A store forgets only what equals a fresh state.
//! 5. **Time goes forward per key.** A clock that steps back, or a corrupt value, costs a key at
//!    most one recovery beyond what was promised for later, and never gives it a new allowance.
//! 6. **All or nothing** over several limits at once, naming the one that refused, with the longest
//!    wait.
//! 7. **Refunds** give back at most what was taken, once, and never lift a key above fresh.
//! 8. **Twins agree**: an algorithm's Rust and Lua texts give the same decision and state.
//! 9. **A changed quota keeps the debt**: neither another tier nor a replaced policy gives a key a
//!    fresh state, nor holds it for longer than the new quota could.
//! 10. **No panic and no overflow** is reachable from a request, nor from any value that a
//!     constructor accepted.
//!
//! # Features
//!
//! `std` (default) adds [`MemoryLimiter`], [`UnkeyedLimiter`] and [`SystemClock`]. Without it the
//! crate is `no_std` and needs only `alloc`.
//!
//! `serde` adds `Policies`, for configuration files, and lets policies, quotas, kinds and costs be
//! read and written; it needs no `std`.
//!
//! `tokio` lets [`SystemClock`] wait by tokio's timer.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

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
mod usage;

pub use clock::{Clock, ManualClock};
#[cfg(feature = "std")]
pub use clock::{Sleep, SystemClock, Timer};
#[cfg(feature = "serde")]
pub use config::Policies;
pub use cost::Cost;
pub use decision::{Decision, Source, Verdict};
pub use error::{Error, ErrorKind};
pub use key::Key;
pub use limiter::{Answer, Check, Limiter, WaitingLimiter};
#[cfg(feature = "std")]
pub use memory::{Acquire, MemoryLimiter, UnkeyedLimiter};
pub use policy::{Kind, Limit, Policy};
pub use quota::Quota;
pub use receipt::{Receipt, Reservation};
pub use timestamp::Timestamp;
pub use usage::Usage;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
