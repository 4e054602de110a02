//! One decision over several limiters in memory that share a clock.

use core::{fmt, time::Duration};

use smallvec::SmallVec;

use super::{debts::Debts, held::operate, limiter::MemoryLimiter, place::Place};
use crate::{
    Clock, Cost, Decision, Demand, JointDecision, Key, SystemClock, algorithms::KeyStates,
    charge::Charged,
};

/// A cost for a key of a limiter in memory, as one element of a [decision](MemoryLimiter::decide) over several.
pub struct MemoryDemand<'a, C = SystemClock> {
    limiter: &'a MemoryLimiter<C>,
    /// The hash of the key.
    key: u64,
    cost: Cost,
    /// `None` if nothing is charged.
    charge: Option<Cost>,
    wants_receipt: bool,
}

/// Without the hash of the key, which would help a client to compute the seed of the hashes.
impl<C> fmt::Debug for MemoryDemand<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limiter, cost, .. } = self;
        f.debug_struct("MemoryDemand")
            .field("limiter", limiter)
            .field("cost", cost)
            .finish_non_exhaustive()
    }
}

impl<'a, C: Clock> MemoryDemand<'a, C> {
    /// Returns the demand without a receipt, for a charge that is never refunded.
    #[must_use]
    pub const fn without_receipt(self) -> Self {
        Self { wants_receipt: false, ..self }
    }

    /// Decides on this demand alone.
    #[inline]
    fn decide(&self, joint: &mut JointDecision) {
        if self.wants_receipt {
            let reservation = self.limiter.reserve_hash(self.key, self.cost, Duration::ZERO);
            joint.decisions.push(Some(reservation.decision()));
            joint.receipts.extend(reservation.into_receipt().map(|receipt| (0, receipt)));
        } else {
            joint.decisions.push(Some(self.limiter.check_hash(self.key, self.cost)));
        }
    }

    /// Adds the decision on this demand, which is the next one of a list, and the receipt of what was charged.
    #[inline]
    fn add_to(
        &self,
        joint: &mut JointDecision,
        decision: Decision,
        charged: impl FnOnce() -> Option<Charged>,
    ) {
        let index = joint.decisions.len();
        joint.decisions.push(Some(decision));
        if self.wants_receipt
            && let Some(charged) = charged()
        {
            let Self { limiter, key, .. } = self;
            joint.receipts.push((index, limiter.receipt(*key, charged)));
        }
    }

    /// Returns how many limits it is charged to.
    fn limits(&self) -> usize {
        self.limiter.limits.salted.len()
    }
}

impl<C: Clock> MemoryLimiter<C> {
    /// Returns a demand of `cost` for `key`, to be [decided](Self::decide) together with others.
    #[inline]
    pub fn demand<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> MemoryDemand<'_, C> {
        let key = self.hasher.hash(&key.into());
        MemoryDemand { limiter: self, key, cost, charge: Some(cost), wants_receipt: true }
    }

    /// Charges all demands if all fit now, or none: what [`decide`](crate::decide) does for limiters in memory, without
    /// trait objects, and for any number of demands. Two demands for one state are charged in turn.
    ///
    /// [Siblings](Self::sibling), and limiters with the default clock, share one reading of the clock.
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    ///
    /// let users = MemoryLimiter::new(Policy::gcra("user", Quota::per_minute(60)));
    /// let tenants = users.sibling(&Policy::fixed_window("tenant", Quota::per_hour(1_000)));
    /// let decision = MemoryLimiter::decide(&[
    ///     users.demand("alice", Cost::ONE),
    ///     tenants.demand("acme", Cost::ONE),
    /// ]);
    /// assert!(decision.is_admitted());
    /// assert_eq!(users.peek("alice").remaining(), 59);
    /// ```
    pub fn decide(demands: &[MemoryDemand<'_, C>]) -> JointDecision {
        let mut joint = JointDecision::default();
        if let [demand] = demands
            && demand.charge == Some(demand.cost)
        {
            demand.decide(&mut joint);
        } else if Self::decide_without_locks(demands, &mut joint).is_none() {
            Self::decide_under_locks(demands, &mut joint);
        }
        joint
    }

    /// Does what [`decide`](Self::decide) does by GCRA in the common case: nobody waits, and all keys have their slots.
    fn decide_without_locks(
        demands: &[MemoryDemand<'_, C>],
        joint: &mut JointDecision,
    ) -> Option<()> {
        let mut debts = Debts::default();
        for MemoryDemand { limiter, key, cost, charge, .. } in demands {
            limiter.add_to(&mut debts, *key, *cost, *charge)?;
        }
        debts.charge()?;
        let mut limits = 0..0;
        for demand in demands {
            limits = limits.end..limits.end + demand.limits();
            let decision = debts.decision(limits.clone());
            demand.add_to(joint, decision, || debts.charged(limits.clone()));
        }
        Some(())
    }

    #[inline(never)]
    fn decide_under_locks(demands: &[MemoryDemand<'_, C>], joint: &mut JointDecision) {
        let mut places = SmallVec::<[Place<'_>; 4]>::new();
        let mut refusals = SmallVec::<[(usize, Decision); 1]>::new();
        for (index, demand) in demands.iter().enumerate() {
            let MemoryDemand { limiter, key, cost, charge, .. } = demand;
            // Waiters come first.
            if let Some(refusal) = limiter.refusal(*key, *cost) {
                refusals.push((index, refusal.decision));
            }
            for place in limiter.tables().places(&limiter.limits, *key) {
                places.push(Place { only_asks: charge.is_none(), ..place });
            }
        }
        operate(&places, None, |states| {
            let waits = waits(demands, states);
            let is_now = |wait: &Option<Duration>| *wait == Some(Duration::ZERO);
            let fits = refusals.is_empty() && waits.iter().all(is_now);
            let mut limits = 0..0;
            for (index, (demand, wait)) in demands.iter().zip(waits).enumerate() {
                limits = limits.end..limits.end + demand.limits();
                let mut own = states.of(limits.clone());
                let refusal = refusals.iter().find(|(refused, _)| *refused == index);
                let decision = match demand.charge.filter(|_| fits) {
                    Some(charge) => own.charge_after(Duration::ZERO, charge),
                    None => match refusal {
                        Some((_, refusal)) => *refusal,
                        None => own.decision(demand.cost, wait),
                    },
                };
                let tables = demand.limiter.tables();
                if fits || !decision.is_admitted() {
                    tables.count_if_full(&decision);
                }
                demand.add_to(joint, decision, || {
                    let charges = own.charges()?;
                    Some(Charged { charges, epoch: tables.epoch() })
                });
            }
        });
    }
}

/// Returns how long each demand waits, if those before it that share its states are charged.
fn waits<C: Clock>(
    demands: &[MemoryDemand<'_, C>],
    states: &mut KeyStates<'_, '_>,
) -> SmallVec<[Option<Duration>; 4]> {
    let copies = states.are_shared().then(|| states.copies());
    let (mut waits, mut limits) = (SmallVec::new(), 0..0);
    for demand in demands {
        limits = limits.end..limits.end + demand.limits();
        let mut own = states.of(limits.clone());
        waits.push(own.wait(demand.cost));
        if let Some(charge) = demand.charge.filter(|_| copies.is_some())
            && waits.last() == Some(&Some(Duration::ZERO))
        {
            let _ = own.charge_after(Duration::ZERO, charge);
        }
    }
    if let Some(copies) = copies {
        states.restore(copies);
    }
    waits
}

/// Does what [`MemoryLimiter::decide`] does. Returns `None` if a demand is not for a limiter in memory with this clock: a
/// limiter of another crate has passed on the id of one.
pub(super) fn decide_dynamic<C: Clock + 'static>(demands: &[Demand<'_>]) -> Option<JointDecision> {
    let mut own = SmallVec::<[MemoryDemand<'_, C>; 4]>::new();
    for demand in demands {
        let limiter: &MemoryLimiter<C> = demand.limiter().as_any().downcast_ref()?;
        let (cost, charge) = (demand.cost(), demand.charge());
        let (key, wants_receipt) = (limiter.hasher.hash(demand.key()), demand.wants_receipt());
        own.push(MemoryDemand { limiter, key, cost, charge, wants_receipt });
    }
    Some(MemoryLimiter::decide(&own))
}
