//! The limit on requests in flight behind the layer.

use crate::{random::Random, trips::Trips, vocabulary::Micros, wrong::Wrong};

/// The limit on requests in flight behind the layer, and how long requests take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) limit: u32,
    pub(crate) expiry: Micros,
    /// Whether it counts requests by their tenant, in place of their user.
    pub(crate) is_shared: bool,
    /// Whether it ends requests that have lost their permit.
    pub(crate) is_strict: bool,
    /// Whether it refuses requests while its store fails.
    pub(crate) denies: bool,
    /// How many of a thousand requests take longer than a few milliseconds.
    long: u64,
}

impl Holding {
    /// The name of its rule.
    pub(crate) const NAME: &str = "exports";

    /// The most requests of a key. All other rules admit one more at once.
    pub(super) const MAX_LIMIT: u64 = 3;

    pub(super) fn new(random: &mut Random, wrong: Option<Wrong>) -> Self {
        let least = (3 * Trips::NEAR.deadline).max(300_000);
        let holding = Self {
            limit: u32::try_from(random.between(1, Self::MAX_LIMIT)).unwrap_or(1),
            expiry: random.between(least, 1_200_000),
            is_shared: random.below(2) == 0,
            is_strict: random.below(2) == 0,
            denies: random.below(2) == 0,
            long: random.between(50, 500),
        };
        match wrong {
            None => holding,
            Some(_) => Self { limit: 1, long: 500, ..holding },
        }
    }

    /// Returns how long the service takes for a request that would take `short`: up to three expiries.
    pub(crate) fn work(&self, random: &mut Random, short: Micros) -> Micros {
        if random.below(1_000) < self.long { random.below(3 * self.expiry) } else { short }
    }
}
