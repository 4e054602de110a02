//! The texts by which stores know the states of a key.

use alloc::{format, string::String};
use core::{fmt, time::Duration};

use super::Limit;
use crate::{Algorithm, ticks::whole};

/// Returns the text that identifies the states of a limit in a limiter of this name: `gcra.60s`, `gcra.60s+300s`,
/// `hour/fixed-window.3600s` or `sub-windows.70s.10s`.
///
/// It has the limit's name unless that is the limiter's, the algorithm's family, the span, of sub-windows the slot, and the
/// horizon unless that is the default. Limits with one text share states, whatever their quotas are.
pub(super) fn identity(limit: &Limit, limiter: &str) -> String {
    let name = if limit.name() == limiter { "" } else { limit.name() };
    let separator = if name.is_empty() { "" } else { "/" };
    let (family, span) = (limit.algorithm().family(), Text(limit.span()));
    let slot = match limit.algorithm() {
        Algorithm::SubWindows(slots) => {
            format!(".{}", Text(whole(slots.length(limit.quota().window()).as_nanos())))
        }
        _ => String::new(),
    };
    let horizon = match limit.horizon_by(|permits| limit.exactly(permits)) {
        horizon if horizon == limit.default_horizon() => String::new(),
        horizon => format!("+{}", Text(whole(horizon.as_nanos()))),
    };
    format!("{name}{separator}{family}.{span}{slot}{horizon}")
}

/// Nanoseconds, written as a whole number of the largest unit that allows it: seconds or smaller.
struct Text(u64);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = *self;
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        let whole = units.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
        let (unit, length) = whole.unwrap_or(("ns", 1));
        write!(f, "{}{unit}", nanos / length)
    }
}

impl Limit {
    /// Returns the time over which a state of this limit means something, in nanoseconds: by GCRA, that in which a
    /// burst recovers, otherwise that for which permits count.
    fn span(&self) -> u64 {
        let window = self.quota().window();
        match self.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                whole(self.exactly(self.quota().burst()).as_nanos())
            }
            Algorithm::SubWindows(slots) => {
                let counted = if slots.is_loose() { slots.number() } else { slots.number() + 1 };
                whole((slots.length(window) * counted).as_nanos())
            }
            Algorithm::FixedWindow
            | Algorithm::AlignedWindow
            | Algorithm::SlidingCounter
            | Algorithm::SlidingLog => whole(window.as_nanos()),
        }
    }

    /// Returns the default horizon: the span, and at least the shortest one. So limits with one text agree on which states are
    /// possible.
    pub(super) fn default_horizon(&self) -> Duration {
        Duration::from_nanos(self.span()).max(Self::SHORTEST_DEFAULT_HORIZON)
    }

    /// Returns the time in which so many permits recover, rounded up once.
    pub(super) fn exactly(&self, permits: u64) -> Duration {
        let nanos = u128::from(permits) * self.quota().window().as_nanos();
        Duration::from_nanos(whole(nanos.div_ceil(self.quota().permits().into())))
    }
}
