//! What was admitted, and whether that was too much.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy, Timestamp};

use super::gcra::NANO;

/// Admissions by the time that had passed, under one policy or several in turn.
#[derive(Clone, Debug)]
pub struct Admitted {
    log: Vec<Admission>,
    now: Timestamp,
    passed: u128,
    /// To which a stretch of time is measured, in nanoseconds.
    tick: u128,
}

#[derive(Clone, Debug)]
struct Admission {
    /// In nanoseconds.
    at: u128,
    permits: u128,
    policy: Policy,
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
        Self { log: Vec::new(), now: Timestamp::ZERO, passed: 0, tick: tick.as_nanos() }
    }

    /// Sets the clock. A step back takes nothing away from the time that has passed, and what was set back passes once more.
    pub fn set_clock(&mut self, now: Timestamp) {
        self.passed += now.saturating_since(self.now).as_nanos();
        self.now = now;
    }

    /// Adds permits of a policy that may be used now.
    pub fn add(&mut self, policy: &Policy, cost: Cost) {
        self.add_later(policy, cost, Duration::ZERO);
    }

    /// Adds permits of a policy that may be used `later`.
    pub fn add_later(&mut self, policy: &Policy, cost: Cost, later: Duration) {
        let (at, permits) = (self.passed + later.as_nanos(), cost.get().into());
        self.log.push(Admission { at, permits, policy: policy.clone() });
    }

    /// Subtracts `permits` from the `index`-th addition, because they were returned.
    pub fn give_back(&mut self, index: usize, permits: u64) {
        if let Some(admission) = self.log.get_mut(index) {
            admission.permits = admission.permits.saturating_sub(permits.into());
        }
    }

    /// Returns how many additions there were.
    #[must_use]
    pub fn additions(&self) -> usize {
        self.log.len()
    }

    /// Returns a stretch of time in which more was admitted than the bounds that the algorithms publish: by one limit
    /// alone, or by all that share its states.
    #[must_use]
    pub fn over(&self) -> Option<Over> {
        self.over_with(0)
    }

    /// Does what [`over`](Self::over) does where each request, one after the other, may also be charged for so
    /// many permits in any case.
    #[must_use]
    pub fn over_with(&self, afterwards: u64) -> Option<Over> {
        let mut policies: Vec<&Policy> = Vec::new();
        for Admission { policy, .. } in &self.log {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        policies.iter().find_map(|policy| {
            let sharing: Vec<_> = policies
                .iter()
                .filter(|other| other.identities() == policy.identities())
                .copied()
                .collect();
            (0..policy.limits().len()).find_map(|limit| {
                let alone = self.over_of(&[policy], limit, afterwards.into());
                alone.or_else(|| self.over_of(&sharing, limit, afterwards.into()))
            })
        })
    }

    /// Returns a stretch of time in which policies admitted more than the bound of one of their limits, which share
    /// states.
    fn over_of(&self, policies: &[&Policy], limit: usize, afterwards: u128) -> Option<Over> {
        let limit_of = |policy: &Policy| policy.limits().get(limit).cloned();
        let limits: Vec<_> = policies.iter().filter_map(|policy| limit_of(policy)).collect();
        let bound = Bound::of(&limits, afterwards, self.tick);
        let counted = self.log.iter().filter(|it| it.permits > 0 && policies.contains(&&it.policy));
        let mut log: Vec<_> = counted
            .filter_map(|it| {
                Some((it.at, it.permits * bound.weight(&limit_of(&it.policy)?, self.tick)))
            })
            .collect();
        log.sort_unstable();
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

/// How much limits may admit that share a state.
enum Bound {
    /// A burst, and what the rate gives, in permits.
    Rate { burst: u128, permits: u128, window: u128 },
    /// The same of several quotas of one span, in time: a permit takes as long as it takes to recover. In units.
    Time { burst: u128 },
    /// So many permits in any trailing window of this length.
    Window { permits: u128, window: u128 },
}

impl Bound {
    fn of(limits: &[Limit], afterwards: u128, tick: u128) -> Self {
        let quotas = || limits.iter().map(Limit::quota);
        let window = quotas().map(|quota| quota.window().as_nanos()).max().unwrap_or(0);
        let largest = quotas().map(|quota| u128::from(quota.permits())).max().unwrap_or(0);
        match limits {
            [limit] if limit.algorithm().is_continuous() => {
                let burst = u128::from(limit.quota().burst()) + afterwards;
                return Self::Rate { burst, permits: largest, window };
            }
            [limit, ..] if limit.algorithm().is_continuous() => {
                let burst = |limit: &Limit| price(limit, tick) * u128::from(limit.quota().burst());
                let burst = limits.iter().map(burst).max().unwrap_or(0);
                return Self::Time { burst };
            }
            _ => {}
        }
        let largest = largest + afterwards;
        let permits = match limits.first().map(Limit::algorithm) {
            Some(Algorithm::SlidingCounter) => 2 * largest - 1,
            Some(Algorithm::FixedWindow | Algorithm::AlignedWindow) => 2 * largest,
            Some(Algorithm::SubWindows(slots)) if slots.is_loose() => 2 * largest,
            _ => largest,
        };
        Self::Window { permits, window }
    }

    /// Returns how much a permit of a limit counts.
    fn weight(&self, limit: &Limit, tick: u128) -> u128 {
        if let Self::Time { .. } = self { price(limit, tick) } else { 1 }
    }

    /// Returns the most in a stretch of time, `None` if it may be cut in two.
    fn within(&self, time: u128, tick: u128) -> Option<u128> {
        match self {
            Self::Rate { burst, permits, window } => Some(burst + (time + tick) * permits / window),
            Self::Time { burst } => Some(burst + (time + tick) * unit(tick)),
            Self::Window { permits, window } => (time < *window).then_some(*permits),
        }
    }
}

/// Returns how many units of time, in which permits recover, a nanosecond has: in memory quarters of it, and in Redis tenths.
pub(crate) const fn unit(tick: u128) -> u128 {
    if tick == 1 { NANO } else { 10 }
}

/// Returns the time in which a permit recovers by a limiter with this tick, rounded up: in memory to a unit, and in Redis to a
/// microsecond, or to a unit if that would cost a thousandth of the rate.
pub(crate) fn price(limit: &Limit, tick: u128) -> u128 {
    let (window, permits) = (limit.quota().window().as_nanos(), limit.quota().permits().into());
    let exact = |of_nano: u128| (window * of_nano).div_ceil(permits);
    let whole = window.div_ceil(1_000 * permits) * 1_000;
    match tick {
        1_000 if (whole * permits - window) * 1_000 < window => whole * unit(tick),
        _ => exact(unit(tick)),
    }
}
