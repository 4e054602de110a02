//! Which algorithm to use when, and how to use a limiter.
//!
//! # Which algorithm
//!
//! 1. By default, use [`Policy::gcra`]: one word a key, no edges, and a burst of your choice.
//! 2. No window may ever exceed the limit: [`Policy::sliding_log`] up to some hundred permits,
//!    strict [`Policy::sub_windows`] above.
//! 3. The limit is a promise to people, such as "100 a day": [`Policy::fixed_window`], or
//!    [`Policy::aligned_window`] for days of the calendar.
//! 4. The window has to slide, the limit is large and memory is tight:
//!    [`Policy::sliding_counter`].
//! 5. Requests have to be spaced evenly: [`Policy::leaky_queue`] if they may wait; otherwise GCRA
//!    with a burst of 1, or paced [`Policy::sub_windows`].
//! 6. Two of these at once: [`Policy::several`].
//!
//! Below, `L` is the quota's permits, `W` its window, `B` its burst, and `r = L / W` its rate. A
//! *bound* is the most permits that are admitted in any trailing window of length `W`. The window is
//! half-open: of two moments exactly `W` apart, it covers one. `cargo xtask bounds` runs an adversary
//! that must reach each bound and must not exceed it.
//!
//! # Measured
//!
#![doc = include_str!("../docs/comparison.md")]
//!
//! In the pictures below, each algorithm gets the same three kinds of traffic, one permit a request.
//! They show admitted and refused requests, and the permits admitted in the window that ends at each
//! moment. `cargo xtask plots` draws them.
//!
//! # GCRA, token bucket, leaky bucket
//!
//! A debt that drains: each permit adds `1 / r` to it, and a request that would raise it above
//! `B / r` is refused. A token bucket is the same algorithm, with missing tokens for the debt. So is
//! a leaky bucket as a meter, whose level is the debt. Quota `10/s` with burst 20 admits 20 at once,
//! then one every 100 ms.
//!
//! - **Bound**: `B + ceil(r * W) - 1`; with the default `B = L` that is `2L - 1`. The same holds for
//!   windows of any other length, with that length for `W`.
//! - **State**: one word, whatever the limit.
//! - **Not for** limits that no window may exceed: a burst and the permits that recover meanwhile
//!   add up.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{MemoryLimiter, Policy, Quota};
//!
//! const API: Quota = Quota::per_second(10).with_burst(20);
//! let limiter = MemoryLimiter::new(Policy::gcra("api", API));
//! assert_eq!(limiter.peek("alice").remaining(), 20);
//!
//! // The same limit by its other names.
//! let bucket = Policy::token_bucket("api", 20, Quota::per_second(10));
//! assert_eq!(&bucket, limiter.policy());
//! assert_eq!(bucket, Policy::leaky_bucket("api", 20, Quota::per_second(10)));
//! # }
//! ```
//!
#![doc = include_str!("../docs/gcra.svg")]
//!
//! # Leaky queue
//!
//! GCRA for callers that wait: permits that do not fit now are promised for later, `1 / r` apart
//! after the first `B`. At most `depth` permits wait; the depth is the policy's horizon.
//!
//! - **Bound**: `B + ceil(r * W) - 1`, for the moments at which requests proceed.
//! - **State**: one word, and whatever waits in your process.
//! - **For** protecting what you call, such as a mail server. In front of a web service, a refusal
//!   is usually better than a wait.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::Duration;
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let outflow = Quota::per_second(10).with_burst(1);
//! let limiter = MemoryLimiter::new(Policy::leaky_queue("mail", 2, outflow));
//! let mut delays = (0..4).map(|_| limiter.reserve("host", Cost::ONE, Duration::MAX).delay());
//! assert_eq!(delays.next(), Some(Some(Duration::ZERO)));
//! assert!(delays.next().flatten() > Some(Duration::from_millis(50)));
//! assert!(delays.next().flatten() > Some(Duration::from_millis(150)));
//! assert_eq!(delays.next(), Some(None));
//! # }
//! ```
//!
#![doc = include_str!("../docs/leaky-queue.svg")]
//!
//! # Fixed and aligned windows
//!
//! A counter that starts anew with each window. A fixed window opens with the first permit after the
//! last window has ended. An aligned window opens at a multiple of its length since the Unix epoch: a
//! minute at second 0, a day at 0:00 UTC.
//!
//! - **Bound**: `2L`, half at the end of one window and half at the start of the next. A fixed window
//!   of one permit has the bound 1.
//! - **State**: the end of the window and a count.
//! - **Not for** limits where twice the limit around an edge does harm. Aligned windows end for all
//!   keys at once, so all refused clients retry at the same moment.
//!
#![doc = include_str!("../docs/fixed-window.svg")]
//!
#![doc = include_str!("../docs/fixed-window-aligned.svg")]
//!
//! # Sliding counter
//!
//! Two counters, one for the current window and one for the previous window. The previous count is
//! weighted by the share of its window that a trailing window still covers. That is exact if its
//! permits were spread evenly, and an estimate otherwise.
//!
//! - **Bound**: `2L - 1`, if all permits of the previous window came at its end.
//! - **State**: two counts and a time. It may refuse below the limit, if the permits of the previous
//!   window came at its start.
//! - **For** large limits that have to slide.
//!
#![doc = include_str!("../docs/sliding-counter.svg")]
//!
//! # Sub-windows
//!
//! The window is cut into `n` slots, permits are counted by slot, and a slot's permits recover
//! together. *Strict* counts the current slot and `n` whole ones before it. *Loose* counts the
//! current slot and `n - 1` before it. *Paced* gives each slot a ceiling of its own, about `L / n`.
//!
//! - **Bound**: strict `L`, paced or not; loose `2L`; loose and paced `L + ceil(L / n)`.
//! - **State**: 16 bytes for each slot in use. Strict, a permit recovers up to one slot later than in
//!   an exact window, so steady traffic gets `n / (n + 1)` of the limit at worst. More slots come
//!   nearer.
//! - **For** limits that no window may exceed and that are too large for a log; paced, for spreading
//!   requests that must not wait. Paced, a cost above the highest ceiling never fits.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{MemoryLimiter, Policy, Quota, Slots};
//!
//! let (quota, slots) = (Quota::per_minute(6_000), Slots::strict(60)?);
//! let strict = MemoryLimiter::new(Policy::sub_windows("export", quota, slots));
//! assert_eq!(strict.peek("alice").remaining(), 6_000);
//!
//! let paced = MemoryLimiter::new(Policy::sub_windows("export", quota, slots.paced()));
//! assert_eq!(paced.peek("alice").remaining(), 100);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/sub-windows.svg")]
//!
#![doc = include_str!("../docs/sub-windows-loose.svg")]
//!
#![doc = include_str!("../docs/sub-windows-paced.svg")]
//!
//! # Sliding log
//!
//! Each admission is dated and counts for exactly one window.
//!
//! - **Bound**: `L`, and nothing is refused below it.
//! - **State**: 16 bytes for each admission that counts, so up to `16 * L` bytes a key and more while
//!   it grows.
//! - **For** small limits that have to be exact: logins, payments, text messages.
//!
#![doc = include_str!("../docs/exact-log.svg")]
//!
//! # Several limits
//!
//! A policy of several limits charges a cost to all of them, or to none, in one step. Each limit keeps
//! its own bound and may have its own algorithm. A refusal names the limit with the longest wait.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let policy = Policy::several("api", [
//!     Policy::gcra("burst", Quota::per_second(2)),
//!     Policy::fixed_window("daily", Quota::per_day(1_000)),
//! ])?;
//! let limiter = MemoryLimiter::new(policy);
//! assert!(limiter.check_n("alice", Cost::of(2)).is_admitted());
//! let refusal = limiter.check_n("alice", Cost::of(2));
//! assert_eq!(limiter.policy().limits()[refusal.limit_index()].name(), "burst");
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # Tiers, customers, reloads
//!
//! `with_policy` returns a handle on the same states under another policy of the same
//! [families](crate::Policy::families). A handle is cheap, so it can be made for a tier at start, for
//! a customer's own quota at each request, or anew when a configuration is reloaded.
//!
//! A changed quota keeps each key's debt: an upgrade takes effect at once, a downgrade when the old
//! debt has drained far enough.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let free = MemoryLimiter::new(Policy::sliding_log("free", Quota::per_hour(10)));
//! let premium = free.with_policy(&Policy::sliding_log("premium", Quota::per_hour(100)))?;
//!
//! assert!(free.check_n("alice", Cost::of(10)).is_admitted());
//! assert_eq!(free.peek("alice").remaining(), 0);
//! assert_eq!(premium.peek("alice").remaining(), 90);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # Waiting
//!
//! Any algorithm can refuse or wait; the operation decides.
//!
//! | operation | if the permits do not fit now |
//! |---|---|
//! | `check` | refuses, with the wait in the decision |
//! | `reserve` | charges them for later, if that is within the given time, and returns the delay |
//! | `acquire` | waits, as a future, in the order of arrival |
//! | `acquire_blocking` | waits on this thread, without a runtime |
//!
//! In front of a service, refuse: clients can wait more cheaply than you. Towards a service that you
//! call, wait, with a deadline: a request that would come too late is refused at once. While a key has
//! waiters, `check` and `reserve` refuse it, so nothing overtakes them. Dropping a wait gives its place
//! to the waiters behind it.
//!
//! `acquire` needs a clock that is a `Timer`: `SystemClock` with the feature `tokio`, or your own.
//!
//! A policy's *horizon* is how far ahead it promises permits to `reserve`. It also bounds how long a
//! key waits after a step back of the clock. The default is the time that a full burst takes to
//! recover, or the window, and at least a minute. [`Policy::with_horizon`] sets another.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::Duration;
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let policy = Policy::gcra("mail", Quota::per_second(1)).with_horizon(Duration::from_secs(2))?;
//! let limiter = MemoryLimiter::new(policy);
//! let far = Duration::from_secs(3_600);
//! let admitted = (0..10).filter(|_| limiter.reserve("host", Cost::ONE, far).is_admitted()).count();
//! assert_eq!(admitted, 3);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # Peeks, refunds, estimates
//!
//! `peek` returns what is used and left, and charges nothing. A reservation has a receipt. `refund`
//! takes it and gives back its permits, once and as far as they still count. If the true cost is known
//! only afterwards, reserve an estimate and refund the rest with [`Receipt::keep`]. `reset` makes a
//! key fresh.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::Duration;
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::sliding_log("tokens", Quota::per_hour(1_000)));
//! let estimate = limiter.reserve("alice", Cost::of(600), Duration::ZERO);
//! if let Some(receipt) = estimate.into_receipt() {
//!     assert_eq!(limiter.refund(receipt.keep(100)), 500);
//! }
//! assert_eq!(limiter.peek("alice").used(), 100);
//! # }
//! ```
//!
//! # Text and files
//!
//! A limit reads and prints as `<quota> [horizon <time>] [by <algorithm>]`. With the feature `serde`,
//! `Policies` reads whole files, with tiers.
//!
//! ```
//! use limiter_core::Policy;
//!
//! let login = Policy::parse("login", "5/60s horizon 5min by sliding-log")?;
//! assert_eq!(login.limits()[0].to_string(), "5/min horizon 5min by sliding-log");
//!
//! let error = Policy::parse("login", "5/fortnight").unwrap_err();
//! assert!(error.to_string().contains("unknown unit of time \"fortnight\""), "{error}");
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! ```toml
//! search = "100/min burst 20"
//!
//! [api.limits]
//! burst = "10/s"
//! hourly = "1000/h by sub-windows 60 slots"
//!
//! [api.tiers.premium]
//! burst = "100/s"
//! hourly = "10000/h"
//! ```
//!
//! # Memory
//!
//! A limiter in memory reserves room for its capacity when it is built, by default for 100,000 keys,
//! and never grows beyond it. A recovered key's place is free. A new key that finds no place shares
//! one state with other such keys until a place is free, so a flood of keys evicts no debt. GCRA takes
//! about 40 bytes a key; the measurements above list the others. `UnkeyedLimiter` is one limit for all
//! requests, without a table.
//!
//! # Any store
//!
//! [`Limiter`](crate::Limiter) and [`WaitingLimiter`](crate::WaitingLimiter) have the same operations
//! with the same names. Code that takes a `&dyn Limiter` runs in memory, or on a store that processes
//! share; only the constructor differs. Answers are awaited and may be errors. In memory they are
//! ready at once and never errors. The command `limiter-doctor` explains what is stored in Redis.
//!
//! In tests, give a limiter a [`ManualClock`](crate::ManualClock), which stays still until it is
//! moved, and wakes the waiters that are then due.
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
//! [`Receipt::keep`]: crate::Receipt::keep
