//! Which algorithm applies a quota.

use crate::Slots;

/// Which algorithm applies a quota.
///
/// # Notation
///
/// `gcra`, `leaky-queue depth 50`, `fixed-window`, `aligned-window`, `sliding-counter`,
/// `sub-windows 60 slots`, which `loose`, `paced` or `loose paced` may follow, and `sliding-log`.
/// `token-bucket` and `leaky-bucket` are other names of `gcra`. An algorithm prints so.
///
/// A new algorithm is a breaking change, so that a store that does not serve it fails to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "token bucket")]
#[doc(alias = "leaky bucket")]
pub enum Algorithm {
    /// The generic cell rate algorithm: a burst at once, then as much as the rate gives. The token
    /// bucket and the leaky bucket as a meter are this algorithm by other names.
    Gcra,
    /// A leaky bucket as a queue: GCRA whose horizon is `depth` permits.
    LeakyQueue {
        /// How many permits may wait.
        depth: u64,
    },
    /// A counter that starts anew with each window; a window opens with the first permit.
    FixedWindow,
    /// A counter that starts anew with each window; windows open at multiples of their length since
    /// the Unix epoch.
    AlignedWindow,
    /// The counters of two windows. The older one fades.
    SlidingCounter,
    /// A counter a slot of the window.
    SubWindows(Slots),
    /// A log of all permits: an exact sliding window.
    SlidingLog,
}

impl Algorithm {
    /// Returns the name of the form in which this algorithm stores a key's state.
    ///
    /// Algorithms of one family can take turns on one key.
    #[must_use]
    pub const fn family(self) -> &'static str {
        match self {
            Self::Gcra | Self::LeakyQueue { .. } => "gcra",
            Self::FixedWindow => "fixed-window",
            Self::AlignedWindow => "aligned-window",
            Self::SlidingCounter => "sliding-counter",
            Self::SubWindows(_) => "sub-windows",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// Returns whether permits recover one by one at the quota's rate, and not window by window.
    #[must_use]
    pub const fn is_continuous(self) -> bool {
        match self {
            Self::Gcra | Self::LeakyQueue { .. } => true,
            Self::FixedWindow
            | Self::AlignedWindow
            | Self::SlidingCounter
            | Self::SubWindows(_)
            | Self::SlidingLog => false,
        }
    }

    /// Returns one algorithm of each variant, for the tests of what serves them all. A new variant
    /// fails to compile here.
    #[doc(hidden)]
    pub fn one_of_each() -> impl Iterator<Item = Self> {
        core::iter::successors(Some(Self::Gcra), |last| match last {
            Self::Gcra => Some(Self::LeakyQueue { depth: 3 }),
            Self::LeakyQueue { .. } => Some(Self::FixedWindow),
            Self::FixedWindow => Some(Self::AlignedWindow),
            Self::AlignedWindow => Some(Self::SlidingCounter),
            Self::SlidingCounter => Some(Self::SubWindows(Slots::strict(4))),
            Self::SubWindows(_) => Some(Self::SlidingLog),
            Self::SlidingLog => None,
        })
    }
}
