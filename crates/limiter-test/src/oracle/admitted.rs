//! What was admitted, and whether that was too much.

use std::time::Duration;

use limiter_core::{Cost, Kind, Limit};

/// Admissions by the time that had passed.
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// In nanoseconds, and in permits.
    log: Vec<(u128, u128)>,
    passed: u128,
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
        self.log.push((self.passed + later.as_nanos(), cost.get().into()));
    }

    /// Takes the `index`-th addition back.
    pub fn take_back(&mut self, index: usize) {
        if let Some((_, permits)) = self.log.get_mut(index) {
            *permits = 0;
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

    /// Returns a stretch of time in which more was admitted than `limit` allows, by the bound that
    /// its algorithm publishes.
    #[must_use]
    pub fn over(&self, limit: &Limit) -> Option<Over> {
        let mut log = self.log.clone();
        log.sort_unstable();
        let window = limit.quota().window().as_nanos();
        for (index, (start, _)) in log.iter().enumerate() {
            let mut permits = 0;
            for (at, more) in log.iter().skip(index) {
                let within = at - start;
                permits += more;
                let bound = match allowance(limit) {
                    Allowance::Rate => {
                        let quota = limit.quota();
                        u128::from(quota.burst()) + within * u128::from(quota.permits()) / window
                    }
                    Allowance::Window(permits) if within < window => permits,
                    Allowance::Window(_) => break,
                };
                if permits > bound {
                    return Some(Over { permits, within, bound });
                }
            }
        }
        None
    }
}

/// How much may be admitted.
enum Allowance {
    /// The burst, and what the rate gives.
    Rate,
    /// As many in any trailing window.
    Window(u128),
}

fn allowance(limit: &Limit) -> Allowance {
    let permits = u128::from(limit.quota().permits());
    match limit.kind() {
        Kind::FixedWindow(_) => Allowance::Window(2 * permits),
        Kind::SlidingCounter => Allowance::Window(2 * permits - 1),
        Kind::SubWindows(slots) if slots.is_loose() => Allowance::Window(2 * permits),
        Kind::SubWindows(_) | Kind::SlidingLog => Allowance::Window(permits),
        _ => Allowance::Rate,
    }
}
