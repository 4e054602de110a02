//! Which algorithm when, and what else a limiter can do.
//!
//! # In short
//!
//! 1. Nothing special is asked for: [`Policy::gcra`]. One word a key, nothing is refused that the
//!    rate allows but for nanoseconds, a burst of your choice.
//! 2. The limit must hold in *every* window, wherever it starts: [`Policy::sliding_log`] up to some
//!    hundred permits, strict [`Policy::sub_windows`] above.
//! 3. The limit is told to people as "so many a day": [`Policy::fixed_window`], or
//!    [`Start::Aligned`] for the calendar's days.
//! 4. A window has to slide, the limit is large and memory is tight: [`Policy::sliding_counter`].
//! 5. Requests have to come out evenly: [`Policy::leaky_queue`] if they may wait, paced
//!    [`Policy::sub_windows`] if not, or GCRA with a burst of one.
//! 6. Two of these at once: [`Policy::several`].
//!
//! Below, `L` is the quota's permits, `W` its window, `B` its burst, `r` its rate `L / W`. A bound
//! is the most permits that are admitted in any trailing window of the length `W`, which is
//! half-open: of two moments exactly `W` apart, it covers one. `cargo xtask bounds` tries to break
//! each bound, and to reach it.
//!
//! # The figures
//!
#![doc = include_str!("../docs/comparison.md")]
//!
//! # The pictures
//!
//! Each algorithm gets the same three kinds of traffic, one permit a request. Beside what was let
//! through and refused, a picture shows how many permits were let through in the window that ends
//! at each moment. `cargo xtask plots` draws them, by the algorithms themselves.
//!
//! # GCRA, token bucket, leaky bucket as meter
//!
//! A debt that drains: each permit adds `1 / r` to it, time takes it away, and what would raise it
//! above `B / r` is refused. A token bucket is the same, seen from the other side: the tokens that
//! are missing are the debt. A leaky bucket as a meter is the same too: its level is the debt.
//!
//! - **Bound**: `B + ceil(r * W) - 1`, with the usual `B = L` that is `2L - 1`. In windows of any
//!   other length the same holds, with that length for `W`.
//! - **Costs** one word a key, whatever the limit.
//! - **Take it** unless something speaks for another: it has no edges, its waits are short, and a
//!   burst is what you say it is.
//! - **Don't** where a window as long as the quota's must never see more than `L`: a burst and the
//!   permits that come back meanwhile add up.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! // Ten a second, of which three at once.
//! let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(10)?.with_burst(3)?)?)?;
//! assert_eq!(limiter.peek("alice").remaining(), 3);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/gcra.svg")]
//!
//! # Leaky bucket as queue
//!
//! As before, but what does not fit now is promised for the moment at which it will: requests come
//! out `1 / r` apart after the first `B`, and no more than `depth` of them wait.
//!
//! - **Bound**: `B + ceil(r * W) - 1` for the moments at which they go on.
//! - **Costs** one word a key, and whatever waits on your side.
//! - **Take it** to protect what stands behind you: a mail server, an API that you call.
//! - **Don't** where waiting is worse than an error, as in front of most web services.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::Duration;
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let evenly = Quota::per_second(10)?.with_burst(1)?;
//! let limiter = MemoryLimiter::new(Policy::leaky_queue("mail", 2, evenly)?)?;
//! let mut delays = (0..4).map(|_| limiter.reserve("host", Cost::ONE, Duration::MAX).delay());
//! assert_eq!(delays.next(), Some(Some(Duration::ZERO)));
//! assert!(delays.next().flatten() > Some(Duration::from_millis(50)));
//! assert!(delays.next().flatten() > Some(Duration::from_millis(150)));
//! assert_eq!(delays.next(), Some(None));
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/leaky-queue.svg")]
//!
//! # Fixed window
//!
//! A counter that starts anew with each window. A window starts with the first permit that is taken
//! after the last one has ended, or at the clock's own minutes, hours or days.
//!
//! - **Bound**: `2L`: all at the end of one window, and all at the start of the next. Only a window
//!   of one permit that starts with it admits no second one.
//! - **Costs** one word a key.
//! - **Take it** where the limit is a promise to people: "100 a day, from midnight on".
//! - **Don't** where twice the limit around an edge does harm. Aligned windows end for all keys at
//!   once, so that everyone who waited comes back in the same moment.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Kind, MemoryLimiter, Policy, Quota, algorithm::Start};
//!
//! let from_first_use = Policy::fixed_window("login", Quota::per_minute(5)?)?;
//! let by_the_clock = Policy::new("daily", Kind::FixedWindow(Start::Aligned), Quota::per_day(100)?)?;
//! let limiter = MemoryLimiter::new(by_the_clock)?;
//! # let _ = (from_first_use, limiter);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/fixed-window.svg")]
//!
#![doc = include_str!("../docs/fixed-window-aligned.svg")]
//!
//! # Sliding counter
//!
//! Two counters, this window's and the last one's. The last one's counts by the part of its window
//! that a window ending now would still cover: exact if its permits were taken evenly, an estimate
//! otherwise.
//!
//! - **Bound**: `2L - 1`: the last window's permits may all have been taken at its end.
//! - **Costs** three words a key, whatever the limit. It may refuse below the limit, where the last
//!   window's permits were taken at its start.
//! - **Take it** for a large limit that should slide, where the exact log would take too much.
//! - **Don't** where the word "window" has to be exact, in either direction.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::sliding_counter("search", Quota::per_hour(50_000)?)?)?;
//! assert_eq!(limiter.peek("alice").remaining(), 50_000);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/sliding-counter.svg")]
//!
//! # Sub-windows
//!
//! The window is cut into `n` slots, permits are counted by slot, and a slot's permits come back
//! together. Strict, the slot that has begun counts beside `n` whole ones; loose, it is one of the
//! `n`. Paced, each slot has a ceiling of its own, about `L / n`.
//!
//! - **Bound**: strict `L`, paced or not; loose `2L`; loose and paced `L + ceil(L / n)`.
//! - **Costs** an entry of 16 bytes for each slot that was used. Strict, a permit comes back up to
//!   one slot later than in an exact window, so steady traffic gets `n / (n + 1)` of the limit at
//!   worst: take more slots to come nearer.
//! - **Take it** strict, where no window may exceed a limit that is too large for a log; paced,
//!   where requests have to be spread and must not wait.
//! - **Don't** take it loose unless a permit must be back when a window has passed. Paced, a cost
//!   above the highest ceiling never fits.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{MemoryLimiter, Policy, Quota, algorithm::Slots};
//!
//! let quota = Quota::per_minute(6_000)?;
//! let strict = MemoryLimiter::new(Policy::sub_windows("export", quota, Slots::strict(60)?)?)?;
//! assert_eq!(strict.peek("alice").remaining(), 6_000);
//!
//! let paced = Slots::strict(60)?.paced();
//! let paced = MemoryLimiter::new(Policy::sub_windows("export", quota, paced)?)?;
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
//! # Exact log
//!
//! Each admission is dated, and counts for exactly one window. What is refused is not written.
//!
//! - **Bound**: `L`, and nothing is refused below it.
//! - **Costs** an entry of 16 bytes for each admission that counts: memory grows by doubling, so up
//!   to `32 * L` bytes a key, and stays until another key takes the place.
//! - **Take it** for small limits that have to be exact: logins, payments, texts.
//! - **Don't** for limits of thousands with many keys.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::sliding_log("login", Quota::per_hour(3)?)?)?;
//! assert!(limiter.try_acquire("alice", Cost::new(3)?).is_admitted());
//! assert!(!limiter.try_acquire("alice", Cost::ONE).is_admitted());
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
#![doc = include_str!("../docs/exact-log.svg")]
//!
//! # Several limits at once
//!
//! A policy of several limits charges a cost to all of them or to none, in one step. Each keeps its
//! own bound, and may have an algorithm of its own. A refusal tells which of them refused, and waits
//! for the one that takes the longest.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let policy = Policy::several("api", [
//!     Policy::gcra("burst", Quota::per_second(2)?)?,
//!     Policy::fixed_window("daily", Quota::per_day(1_000)?)?,
//! ])?;
//! let limiter = MemoryLimiter::new(policy.clone())?;
//! assert!(limiter.try_acquire("alice", Cost::new(2)?).is_admitted());
//! let refusal = limiter.try_acquire("alice", Cost::new(2)?);
//! assert_eq!(policy.limits()[refusal.limit_index()].name(), "burst");
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # Waiting or refusing
//!
//! Any algorithm can do both; the call decides.
//!
//! | call | if the permits are not there now |
//! |---|---|
//! | `try_acquire` | refuses, and tells how long to wait |
//! | `reserve` | takes them for later, if that is near enough, and tells when |
//! | `acquire`, `acquire_within` | waits, as a future, in the order of arrival |
//! | `acquire_blocking` | the same on a thread, without a runtime |
//!
//! In front of a service, refuse: who asks can wait better than you can. Towards a service that you
//! call, wait, but with a deadline: what would come too late is refused at once. As long as someone
//! waits for a key, `try_acquire` and `reserve` are refused, by whichever tier: no one overtakes. A
//! wait that is dropped makes room for those behind it.
//!
//! `acquire` wakes up by a `Timer`: a `SystemClock` is one with the feature `tokio`, and any clock of
//! yours that sleeps as your runtime does.
//!
//! # Looking, giving back, settling
//!
//! `peek` tells what is used and left, and takes nothing. A receipt gives back what was taken, once
//! and as far as it still counts; with [`Receipt::keep`], the part that was not needed: where the
//! true cost is known only afterwards, take an estimate first and settle it then. `reset` makes a key
//! a fresh one. A reservation that is dropped stays taken.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::time::Duration;
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let limiter = MemoryLimiter::new(Policy::sliding_log("tokens", Quota::per_hour(1_000)?)?)?;
//! let estimate = limiter.reserve("alice", Cost::new(600)?, Duration::ZERO);
//! assert_eq!(limiter.peek("alice").used(), 600);
//! if let Some(receipt) = estimate.into_receipt() {
//!     limiter.refund(receipt.keep(100));
//! }
//! assert_eq!(limiter.peek("alice").used(), 100);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # Tiers, and limits that change
//!
//! Tiers are other quotas for some keys, of the same kinds of limits. What a key takes by one of them
//! is taken from all, so that it keeps its debt when it changes its tier. `replace` puts another policy in place of the one that
//! is applied, for all clones and tiers at once, and debts are kept as well.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
//!
//! let tiers = |free, premium| {
//!     let premium = Policy::sliding_log("premium", Quota::per_hour(premium)?)?;
//!     Policy::sliding_log("free", Quota::per_hour(free)?)?.with_tier(premium)
//! };
//! let free = MemoryLimiter::new(tiers(10, 100)?)?;
//! let premium = free.tier("premium")?;
//! assert!(free.try_acquire("alice", Cost::new(10)?).is_admitted());
//! assert_eq!(premium.peek("alice").remaining(), 90);
//!
//! free.replace(tiers(20, 200)?)?;
//! assert_eq!(free.peek("alice").remaining(), 10);
//! # }
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! # As text, from files
//!
//! Every limit can be written, and prints as it is written: `<quota> [by <algorithm>]`. With the
//! feature `serde`, `Policies` reads a whole file of them, in any format that serde knows.
//!
//! ```
//! use limiter_core::{Policy, Quota};
//!
//! let login = Policy::parse("login", "5/min by sliding-log")?;
//! assert_eq!(login.limits()[0].to_string(), "5/min by sliding-log");
//! assert_eq!("100/min burst 20".parse::<Quota>()?, Quota::per_minute(100)?.with_burst(20)?);
//!
//! let error = Policy::parse("login", "5/fortnight").unwrap_err();
//! assert!(error.to_string().contains("\"fortnight\" is no unit of time"), "{error}");
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
//! # Wherever the state is
//!
//! The same operations, with the same meaning, are those of [`Limiter`](crate::Limiter), and waiting
//! is that of [`WaitingLimiter`](crate::WaitingLimiter): code that takes a `&dyn Limiter` is served
//! from memory or from a store that several processes share, by another constructor. Its answers are
//! awaited, and may be errors; in memory they are there at once, and are none.
//!
//! While processes can't ask the store that they share, each may go on by itself with its share:
//! [`Policy::shared_among`] divides every quota by their number.
//!
//! # Without keys, and in tests
//!
//! `UnkeyedLimiter` is one limit for all, with the same operations and no table. In tests, give
//! either limiter a [`ManualClock`](crate::ManualClock), which stands still until it is moved, and
//! wakes those who wait.
//!
//! [`Policy::gcra`]: crate::Policy::gcra
//! [`Policy::sliding_log`]: crate::Policy::sliding_log
//! [`Policy::sub_windows`]: crate::Policy::sub_windows
//! [`Policy::fixed_window`]: crate::Policy::fixed_window
//! [`Policy::sliding_counter`]: crate::Policy::sliding_counter
//! [`Policy::leaky_queue`]: crate::Policy::leaky_queue
//! [`Policy::several`]: crate::Policy::several
//! [`Policy::shared_among`]: crate::Policy::shared_among
//! [`Start::Aligned`]: crate::algorithm::Start::Aligned
#![cfg_attr(feature = "std", doc = "[`Receipt::keep`]: crate::Receipt::keep")]
