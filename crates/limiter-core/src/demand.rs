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
    /// At most the cost, `None` if nothing is charged.
    charge: Option<Cost>,
}

/// The most demands of one decision.
pub(crate) const MAX_DEMANDS: usize = 16;

impl<'a> Demand<'a> {
    /// Returns the demand of `cost` for `key`.
    pub fn new(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self { limiter, id: limiter.id(), key: key.into(), cost, charge: Some(cost) }
    }

    /// Returns the demand that `cost` fits, which is never charged: for a block that other requests charge.
    ///
    /// An absent key always fits a cost up to the burst, also if a table in memory is full.
    pub fn only_ask(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self { charge: None, ..Self::new(limiter, key, cost) }
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
        self.charge.is_none()
    }

    /// Returns the permits that are charged if all demands fit, `None` if the demand only asks. Less than the cost if a
    /// demand that only asks was merged with this one.
    #[must_use]
    pub const fn charge(&self) -> Option<Cost> {
        self.charge
    }

    /// Sets the permits that are charged.
    pub(crate) const fn charging(mut self, charge: Option<Cost>) -> Self {
        self.charge = charge;
        self
    }

    /// Returns whether both limiters have their states in one store.
    pub(crate) const fn shares_store_with(&self, other: &Self) -> bool {
        self.id.shares_store_with(other.id)
    }

    /// Returns the decision that a limiter's [preview](Limiter::preview) means for this demand: to one that only
    /// asks, a key without a slot in a full table is an absent key.
    pub(crate) fn decision(&self, preview: Decision) -> Decision {
        if !self.only_asks() || preview.source() != Source::FullTable {
            return preview;
        }
        let burst = preview.burst();
        let fresh = Usage::new(burst, burst, Duration::ZERO);
        match self.cost.get() <= burst {
            true => Decision::admitted(fresh),
            false => Decision::refused(fresh, None),
        }
    }

    /// Adds the cost of another demand for the same key of the same limiter.
    fn join(&mut self, other: &Self) {
        self.cost = self.cost.saturating_add(other.cost);
        self.charge = match (self.charge, other.charge) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }

    /// Returns whether both are for one key of one limiter, so that their costs add up.
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
            .field("charge", &self.charge)
            .finish_non_exhaustive()
    }
}

/// Demands of which no two are for one key of one limiter, and the place of each of the caller's demands among them.
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
            let place = merged.demands.iter().position(|known| known.has_state_of(demand));
            merged.places.push(place.unwrap_or(merged.demands.len()));
            match place.and_then(|place| merged.demands.get_mut(place)) {
                Some(known) => known.join(demand),
                None => merged.demands.push(demand.clone()),
            }
        }
        Ok(Some(merged))
    }
}
