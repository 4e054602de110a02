//! The bounds that the algorithms publish, written anew: the most permits that count within a stretch of time.

use limiter_core::{Algorithm, Limit};

use crate::vocabulary::{Micros, micros};

/// The bound of one quota of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A burst, and what the rate gives in the stretch.
    Rate { burst: u64, permits: u64, window: Micros },
    /// So many in a stretch that is shorter than the window. `pace` is the length of paced slots, and the most permits of
    /// each.
    Window { most: u64, window: Micros, pace: Option<(Micros, u64)> },
}

/// Moments are rounded to microseconds twice, so a stretch may be two of them longer than it seems.
const ROUNDED: Micros = 2;

impl Bound {
    /// Returns the bound of a limit.
    pub(crate) fn of(limit: &Limit) -> Self {
        let quota = limit.quota();
        let (permits, window) = (quota.permits(), micros(quota.window()));
        let (most, pace) = match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                return Self::Rate { burst: quota.burst(), permits, window };
            }
            // A window, and the one that has just ended.
            Algorithm::FixedWindow | Algorithm::AlignedWindow => (2 * permits, None),
            Algorithm::SlidingCounter => (2 * permits - 1, None),
            Algorithm::SlidingLog => (permits, None),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let (slot, ceiling) = (window.div_ceil(number), permits.div_ceil(number));
                let pace = slots.is_paced().then_some((slot, ceiling));
                let beside = if slots.is_paced() { ceiling } else { permits };
                (permits + if slots.is_loose() { beside } else { 0 }, pace)
            }
        };
        Self::Window { most, window, pace }
    }

    /// Returns the longest stretch that is checked: a window, or two by GCRA. Longer ones consist of shorter ones.
    pub(crate) const fn longest(self) -> Micros {
        match self {
            Self::Rate { window, .. } => 2 * window,
            Self::Window { window, .. } => window,
        }
    }

    /// Returns the most permits that count in a stretch from the first of them to the last, both included. `None` for a
    /// stretch that is too long: shorter ones are checked instead.
    pub(crate) fn within(self, stretch: Micros) -> Option<u64> {
        let longest = stretch + ROUNDED;
        match self {
            Self::Rate { burst, permits, window } if stretch <= self.longest() => {
                Some(burst + longest * permits / window)
            }
            Self::Window { most, window, pace } if longest < window => {
                let paced = pace.map(|(slot, ceiling)| (longest / slot + 2) * ceiling);
                Some(most.min(paced.unwrap_or(u64::MAX)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::Policy;

    use super::*;

    #[test]
    fn bounds_are_the_published_ones() {
        for (text, millis, bound) in [
            ("6/s burst 2", 0, 2),
            ("6/s burst 2", 500, 5),
            ("5/s by fixed-window", 999, 10),
            ("5/s by sliding-counter", 999, 9),
            ("5/s by sliding-log", 999, 5),
            ("12/s by sub-windows 5 slots", 999, 12),
            ("12/s by sub-windows 5 slots loose", 999, 24),
            ("12/s by sub-windows 5 slots loose paced", 999, 15),
            ("12/s by sub-windows 5 slots paced", 0, 6),
            ("12/s by sub-windows 5 slots paced", 200, 9),
            ("12/s by sub-windows 5 slots paced", 400, 12),
        ] {
            let policy = Policy::parse("limit", text).unwrap();
            let within = Bound::of(&policy.limits()[0]).within(1_000 * millis);
            assert_eq!(within, Some(bound), "{text}, {millis}");
        }
    }
}
