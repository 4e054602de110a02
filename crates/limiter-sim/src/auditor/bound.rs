//! The bounds that the algorithms publish, written anew: the most permits that count within a stretch of time.

use crate::vocabulary::Micros;
use limiter_core::{Algorithm, Policy};

/// The bound of a policy of one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A burst, and what the rate gives in the stretch.
    Rate { burst: u64, permits: u64, window: Micros },
    /// So many permits in any stretch that is shorter than the window.
    Window { permits: u64, window: Micros },
}

impl Bound {
    /// Returns the bound of a policy's first limit.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let limit = policy.limits().first()?;
        let quota = limit.quota();
        let window = u64::try_from(quota.window().as_micros()).ok()?;
        let permits = quota.permits();
        let permits = match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                return Some(Self::Rate { burst: quota.burst(), permits, window });
            }
            Algorithm::FixedWindow | Algorithm::AlignedWindow => 2 * permits,
            Algorithm::SlidingCounter => 2 * permits - 1,
            Algorithm::SubWindows(slots) if slots.is_loose() => 2 * permits,
            Algorithm::SubWindows(_) | Algorithm::SlidingLog => permits,
        };
        Some(Self::Window { permits, window })
    }

    /// Returns the bound of the share that each of so many processes has, `None` if that is less than a permit. By clocks
    /// of processes, which differ in rate from the server's, there may be one permit more.
    pub(crate) fn share(self, processes: u64) -> Option<Self> {
        let of = |permits: u64| (permits / processes).max(1);
        match self {
            Self::Rate { burst, permits, window } if permits >= processes => {
                Some(Self::Rate { burst: of(burst) + 1, permits: of(permits), window })
            }
            Self::Rate { .. } | Self::Window { .. } => None,
        }
    }

    pub(crate) const fn window(self) -> Micros {
        match self {
            Self::Rate { window, .. } | Self::Window { window, .. } => window,
        }
    }

    /// Returns the most permits that count in a stretch from the first of them to the last, both included, of so many
    /// microseconds. `None` for a stretch longer than a window, or than two by GCRA: shorter ones are checked instead.
    ///
    /// Moments are rounded to microseconds twice, so a stretch may be two of them longer than it seems.
    pub(crate) const fn within(self, stretch: Micros) -> Option<u64> {
        match self {
            Self::Rate { burst, permits, window } if stretch <= 2 * window => {
                Some(burst + (stretch + 2) * permits / window)
            }
            Self::Window { permits, window } if stretch + 2 < window => Some(permits),
            Self::Rate { .. } | Self::Window { .. } => None,
        }
    }
}
