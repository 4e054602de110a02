//! Which algorithm applies a quota.

use crate::algorithm::{Slots, Start};

/// Which algorithm applies a quota.
///
/// # Notation
///
/// `gcra`, `token-bucket`, `leaky-bucket`, `leaky-queue depth 50`, `fixed-window`,
/// `fixed-window aligned`, `sub-windows 60 slots`, and then `loose`, `paced` or `loose paced`;
/// `sliding-counter`, `sliding-log`. A kind prints so, and is read so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The generic cell rate algorithm: see [`Gcra`](crate::algorithm::Gcra).
    Gcra,
    /// A bucket that is refilled: GCRA by another name.
    TokenBucket,
    /// A bucket that leaks, as a meter: GCRA by another name.
    LeakyBucket,
    /// A bucket that leaks, as a queue: GCRA that promises permits for later.
    LeakyQueue {
        /// How many permits may wait.
        depth: u64,
    },
    /// One counter: see [`FixedWindow`](crate::algorithm::FixedWindow).
    FixedWindow(Start),
    /// Counters of a window's slots: see [`Slots`].
    SubWindows(Slots),
    /// Two counters: see [`SlidingCounter`](crate::algorithm::SlidingCounter).
    SlidingCounter,
    /// A log of all permits: see [`Ledger::sliding_log`](crate::algorithm::Ledger::sliding_log).
    SlidingLog,
}
