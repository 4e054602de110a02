//! The bounds that the algorithms publish, written anew: the most permits that count within a stretch of time.

use std::time::Duration;

use limiter_core::{Algorithm, Limit};

use crate::vocabulary::Micros;

/// The bound of one quota of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A burst, and what the rate gives in the stretch. A debt is at most that of the burst and the horizon.
    Rate { burst: u64, permits: u64, window: Micros, horizon: Micros },
    /// The limit in a window, and in so many windows more than fit into the stretch.
    Window { limit: u64, window: Micros, edges: u64, form: Form },
}

/// In what the bounds of algorithms with windows differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// A permit less than the limit of two windows.
    Counter,
    /// Windows of all lengths end at the same moments of each day.
    Aligned,
}

impl Bound {
    /// Returns the bound of a limit.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let (quota, window) = (limit.quota(), micros(limit.quota().window())?);
        Self::of_quota(limit, quota.permits(), quota.burst(), window)
    }

    /// Returns the bound of the share of it that each of so many processes has: every number divided by that and rounded
    /// down, or one permit in several windows.
    ///
    /// Clocks of processes differ in rate from the server's by less than a thousandth. So windows may be shorter by that,
    /// and a rate may give one permit more.
    pub(crate) fn of_share(limit: &Limit, processes: u64) -> Option<Self> {
        let quota = limit.quota();
        let part = |number: u64| (number / processes).max(1);
        let window = micros(quota.window())? * processes.div_ceil(quota.permits());
        let (permits, burst) = (part(quota.permits()), part(quota.burst()));
        Some(match Self::of_quota(limit, permits, burst, window)? {
            Self::Rate { burst, permits, window, horizon } => {
                Self::Rate { burst: burst + 1, permits, window, horizon }
            }
            Self::Window { limit, window, edges, form } => {
                Self::Window { limit, window: window - window / 1_000, edges, form }
            }
        })
    }

    fn of_quota(limit: &Limit, permits: u64, burst: u64, window: Micros) -> Option<Self> {
        let (edges, form) = match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                let horizon = micros(limit.horizon())?;
                return Some(Self::Rate { burst, permits, window, horizon });
            }
            Algorithm::FixedWindow => (1, Form::Plain),
            Algorithm::AlignedWindow => (1, Form::Aligned),
            Algorithm::SlidingCounter => (1, Form::Counter),
            Algorithm::SubWindows(slots) => (u64::from(slots.is_loose()), Form::Plain),
            Algorithm::SlidingLog => (0, Form::Plain),
        };
        Some(Self::Window { limit: permits, window, edges, form })
    }

    pub(crate) const fn window(self) -> Micros {
        match self {
            Self::Rate { window, .. } | Self::Window { window, .. } => window,
        }
    }

    /// Returns the longest stretch that is checked: a window, or two by GCRA. Longer ones consist of shorter ones.
    pub(crate) const fn longest(self) -> Micros {
        match self {
            Self::Rate { window, .. } => 2 * window,
            Self::Window { window, .. } => window,
        }
    }

    /// Returns how many permits fit at once, at least.
    pub(crate) const fn at_once(self) -> u64 {
        match self {
            Self::Rate { burst, .. } => burst,
            Self::Window { limit, .. } => limit,
        }
    }

    /// Returns whether a key may recover under `other` before a lease of this quota ends.
    pub(crate) fn is_slower_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Rate { permits, window, .. }, Self::Rate { permits: more, window: in_, .. }) => {
                permits * in_ < more * window
            }
            _ => other.window() < self.window(),
        }
    }

    /// Returns the most permits that count in a stretch from the first of them to the last, both included, of so many
    /// microseconds, if requests that are in flight together are charged up to `overshoot` permits afterwards. `None` for
    /// a stretch that is too long: shorter ones are checked instead.
    pub(crate) fn within(self, stretch: Micros, overshoot: u64) -> Option<u64> {
        if stretch > self.longest() {
            return None;
        }
        match self {
            Self::Rate { burst, .. } => Some(burst + self.given(stretch) + self.debt(overshoot)),
            Self::Window { limit, window, edges, form } if stretch + ROUNDED < window => {
                let permits = (1 + edges) * limit.saturating_add(overshoot);
                Some(permits - u64::from(form == Form::Counter))
            }
            Self::Window { .. } => None,
        }
    }

    /// Returns what a rate gives in a stretch.
    pub(super) const fn given(self, stretch: Micros) -> u64 {
        match self {
            Self::Rate { permits, window, .. } => (stretch + ROUNDED) * permits / window,
            Self::Window { .. } => 0,
        }
    }

    /// Returns how far an overshoot can lift a debt above the burst: up to the horizon.
    pub(super) fn debt(self, overshoot: u64) -> u64 {
        match self {
            Self::Rate { permits, window, horizon, .. } => {
                overshoot.min((horizon * permits).div_ceil(window))
            }
            Self::Window { .. } => 0,
        }
    }
}

/// Moments are rounded to microseconds twice, so a stretch may be two of them longer than it seems.
pub(super) const ROUNDED: Micros = 2;

fn micros(time: Duration) -> Option<Micros> {
    u64::try_from(time.as_micros()).ok()
}
