//! What was admitted, and whether that was too much.

use std::{collections::BTreeSet, time::Duration};

use limiter_core::{Algorithm, Cost, Limit, Quota};

use crate::schedule::slot_of;

/// Admissions by the time that had passed.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// In nanoseconds, and in permits.
    log: Vec<(u128, u128)>,
    passed: u128,
    /// To which a stretch of time is measured, in nanoseconds.
    tick: u128,
    /// Whether permits were reserved for later.
    ahead: bool,
}

/// Too much in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// The permits.
    pub permits: u128,
    /// From the first of them to the last, in nanoseconds.
    pub within: u128,
    /// As many are allowed in that time.
    pub bound: u128,
}

impl Admitted {
    /// Returns no admissions, by a limiter whose clock has this tick.
    #[must_use]
    pub fn by_ticks_of(tick: Duration) -> Self {
        Self { log: Vec::new(), passed: 0, tick: tick.as_nanos(), ahead: false }
    }

    /// Lets `time` pass.
    pub fn pass(&mut self, time: Duration) {
        self.passed += time.as_nanos();
    }

    /// Adds permits that may be used now.
    pub fn add(&mut self, cost: Cost) {
        self.add_later(cost, Duration::ZERO);
    }

    /// Adds permits that may be used `later`.
    pub fn add_later(&mut self, cost: Cost, later: Duration) {
        self.ahead |= !later.is_zero();
        self.log.push((self.passed + later.as_nanos(), cost.get().into()));
    }

    /// Subtracts `permits` from the `index`-th addition, because they were returned.
    pub fn give_back(&mut self, index: usize, permits: u64) {
        if let Some((_, left)) = self.log.get_mut(index) {
            *left = left.saturating_sub(permits.into());
        }
    }

    /// Returns how many additions there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Returns whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Returns a stretch of time in which more was admitted than `limits` allow, which took turns on
    /// one state, by the bound that their algorithms publish.
    #[must_use]
    pub fn over(&self, limits: &[&Limit]) -> Option<Over> {
        self.over_with(limits, 0)
    }

    /// Does what [`over`](Self::over) does where each request, one after the other, may also be charged for so
    /// many permits in any case.
    #[must_use]
    pub fn over_with(&self, limits: &[&Limit], afterwards: u64) -> Option<Over> {
        let mut log = self.log.clone();
        log.retain(|(_, permits)| *permits > 0);
        log.sort_unstable();
        let bound = Bound::of(limits, self.ahead, afterwards.into());
        for (index, (start, _)) in log.iter().enumerate() {
            let mut permits = 0;
            for (at, more) in log.iter().skip(index) {
                let within = at - start;
                permits += more;
                let Some(bound) = bound.within(within, self.tick) else { break };
                if permits > bound {
                    return Some(Over { permits, within, bound });
                }
            }
        }
        None
    }
}

/// How much limits may admit that take turns on one state.
enum Bound {
    /// The largest burst, and what the highest rate gives.
    Rate { burst: u128, rates: Vec<(u128, u128)> },
    /// The largest burst, and what all rates together give, with one permit of each: a quota that
    /// charges over another one's reservations drains them at its own pace, before they are due.
    Rates { burst: u128, rates: Vec<(u128, u128)> },
    /// So many permits in any trailing window of the shortest length.
    Window { permits: u128, window: u128 },
}

impl Bound {
    fn of(limits: &[&Limit], ahead: bool, afterwards: u128) -> Self {
        let quotas = || limits.iter().map(|limit| limit.quota());
        let is_rate = limits.iter().any(|limit| limit.algorithm().is_continuous());
        if is_rate {
            let burst =
                quotas().map(|quota| u128::from(quota.burst())).max().unwrap_or(0) + afterwards;
            let rate = |quota: &Quota| (u128::from(quota.permits()), quota.window().as_nanos());
            let rates: Vec<_> = quotas().map(rate).collect();
            let is_mixed = rates.len() > 1;
            return match ahead && is_mixed {
                true => Self::Rates { burst, rates },
                false => Self::Rate { burst, rates },
            };
        }
        let largest = quotas().map(|quota| u128::from(quota.permits())).max().unwrap_or(0);
        let largest = largest + afterwards;
        let window = quotas().map(|quota| quota.window().as_nanos()).min().unwrap_or(0);
        let permits = match limits.first().map(|limit| limit.algorithm()) {
            Some(Algorithm::FixedWindow) => 2 * largest,
            Some(Algorithm::SlidingCounter) => 2 * largest - 1,
            Some(Algorithm::AlignedWindow | Algorithm::SubWindows(_)) => {
                (1 + edges(limits)) * largest
            }
            Some(Algorithm::SlidingLog | Algorithm::Gcra | Algorithm::LeakyQueue { .. }) | None => {
                largest
            }
        };
        Self::Window { permits, window }
    }

    /// Returns the most permits in a stretch of time, `None` if it may be cut in two.
    fn within(&self, time: u128, tick: u128) -> Option<u128> {
        match self {
            Self::Rate { burst, rates } => {
                let flows = rates.iter().map(|(permits, window)| (time + tick) * permits / window);
                Some(burst + flows.max().unwrap_or(0))
            }
            Self::Rates { burst, rates } => {
                let flows = rates.iter().map(|(permits, window)| (time + tick) * permits / window);
                Some(burst + flows.map(|flow| flow + 1).sum::<u128>())
            }
            Self::Window { permits, window } => (time < *window).then_some(*permits),
        }
    }
}

/// Returns at how many edges of a grid a trailing window of the shortest length can forget what was
/// taken before: one for each grid of aligned windows or of the slots of loose sub-windows. Also where one
/// length is a multiple of another: a window may open too late to find what a longer one has counted.
fn edges(limits: &[&Limit]) -> u128 {
    let has_edges = |limit: &&&Limit| match limit.algorithm() {
        Algorithm::SubWindows(slots) => slots.is_loose(),
        _ => true,
    };
    let grids = limits.iter().filter(has_edges).map(|it| (slot_of(it), it.quota().window()));
    grids.collect::<BTreeSet<_>>().len() as u128
}
