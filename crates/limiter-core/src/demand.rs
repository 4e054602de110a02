//! What a request asks of one limiter.

use alloc::{format, vec::Vec};
use core::{fmt, time::Duration};

use crate::{Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterId, Source, Usage};

/// A cost for a key of a limiter: one of those that [`decide`](crate::decide) charges together.
///
/// ```
/// use limiter_core::{Cost, Demand, MemoryLimiter, Policy, Quota};
///
/// let requests = MemoryLimiter::new(Policy::gcra("requests", Quota::per_second(10)));
/// let tokens = MemoryLimiter::new(Policy::gcra("tokens", Quota::per_minute(10_000)));
/// let demands = [
///     Demand::new(&requests, "alice", Cost::ONE),
///     Demand::new(&tokens, "alice", Cost::of(1_200)),
/// ];
/// # let _ = demands;
/// ```
#[derive(Clone)]
pub struct Demand<'a> {
    limiter: &'a dyn Limiter,
    id: LimiterId,
    key: Key<'a>,
    cost: Cost,
    only_asks: bool,
}

/// The most demands of one decision.
pub(crate) const MAX_DEMANDS: usize = 16;

impl<'a> Demand<'a> {
    /// Returns the demand of `cost` for `key`.
    pub fn new(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self { limiter, id: limiter.id(), key: key.into(), cost, only_asks: false }
    }

    /// Returns the demand that `cost` fits, which is never charged: for a block that other requests charge.
    ///
    /// An absent key always fits, also if a table in memory is full.
    pub fn only_ask(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self { only_asks: true, ..Self::new(limiter, key, cost) }
    }

    /// Returns the limiter that decides.
    #[must_use]
    pub const fn limiter(&self) -> &'a dyn Limiter {
        self.limiter
    }

    /// Returns the key that is charged.
    #[must_use]
    pub const fn key(&self) -> &Key<'a> {
        &self.key
    }

    /// Returns the permits that have to fit.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns whether the demand is never charged.
    #[must_use]
    pub const fn only_asks(&self) -> bool {
        self.only_asks
    }

    /// Returns whether both limiters have their states in one store.
    pub(crate) const fn shares_store_with(&self, other: &Self) -> bool {
        self.id.shares_store_with(other.id)
    }

    /// Returns the decision that a limiter's [preview](Limiter::preview) means for this demand: to one that only
    /// asks, a key without a slot in a full table is an absent key.
    pub(crate) fn decision(&self, preview: Decision) -> Decision {
        let burst = preview.burst();
        if self.only_asks && preview.source() == Source::FullTable && self.cost.get() <= burst {
            return Decision::admitted(Usage::new(burst, burst, Duration::ZERO));
        }
        preview
    }

    /// Returns whether both are for one key of one limiter, so that their costs add up.
    fn joins(&self, other: &Self) -> bool {
        self.only_asks == other.only_asks && self.has_state_of(other)
    }

    fn has_state_of(&self, other: &Self) -> bool {
        self.id == other.id && self.key == other.key
    }
}

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand")
            .field("policy", &self.limiter.policy().name())
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("only_asks", &self.only_asks)
            .finish_non_exhaustive()
    }
}

/// Demands of which no two join, and the place of each of the caller's demands among them.
pub(crate) struct Merged<'a> {
    pub(crate) demands: Vec<Demand<'a>>,
    pub(crate) places: Vec<usize>,
}

impl<'a> Merged<'a> {
    /// Joins demands for one key of one limiter to one with the sum of their costs. Returns `None` if there are none.
    pub(crate) fn of(demands: &[Demand<'a>]) -> Result<Option<Self>, Error> {
        if demands.len() > MAX_DEMANDS {
            let number = demands.len();
            let message = format!("invalid list of {number} demands: use at most {MAX_DEMANDS}");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let pairs = || {
            let others = |index: usize| demands.iter().skip(index + 1);
            demands
                .iter()
                .enumerate()
                .flat_map(move |(at, it)| others(at).map(move |other| (it, other)))
        };
        if !pairs().any(|(one, other)| one.has_state_of(other)) {
            return Ok(None);
        }
        for (one, other) in pairs() {
            let (policy, others) = (one.limiter.policy(), other.limiter.policy());
            if one.has_state_of(other) && policy != others {
                let message = format!(
                    "invalid list of demands: two for one key of one limiter have different policies, {:?} \
                     and {:?}; use one of them",
                    policy.name(),
                    others.name()
                );
                return Err(Error::new(ErrorKind::InvalidSetting, message));
            }
        }
        let mut merged = Self { demands: Vec::new(), places: Vec::new() };
        for demand in demands {
            let place = merged.demands.iter().position(|known| known.joins(demand));
            merged.places.push(place.unwrap_or(merged.demands.len()));
            match place.and_then(|place| merged.demands.get_mut(place)) {
                Some(known) => known.cost = known.cost.saturating_add(demand.cost),
                None => merged.demands.push(demand.clone()),
            }
        }
        Ok(Some(merged))
    }
}
