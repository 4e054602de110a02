//! One decision over several limiters in memory that share a clock.

use core::time::Duration;

use smallvec::SmallVec;

use super::{Handle, MemoryLimiter};
use crate::{
    Clock, Demand, JointDecision, Source, Timestamp,
    memory::list::{Ask, List},
};

/// A demand, and the handle on the states that it is for.
struct Place<'a, C> {
    demand: &'a Demand<'a>,
    handle: &'a Handle<C>,
    /// The hash of the key.
    key: u64,
}

/// Charges all demands if all fit, or none. Returns `None` if one is not for a limiter in memory with this clock: a
/// limiter of another crate has passed on the id of one.
///
/// All are read before one is charged, so that a refusal writes nothing. To charge them in turn and to refund them would
/// leave debts, because a refund gives back the cost less what has drained.
pub(super) fn decide<C: Clock + 'static>(demands: &[Demand<'_>]) -> Option<JointDecision> {
    let mut places = SmallVec::<[_; 4]>::new();
    for demand in demands {
        let limiter: &MemoryLimiter<C> = demand.limiter().as_any().downcast_ref()?;
        places.push(Place { demand, handle: &limiter.handle, key: limiter.hash(demand.key()) });
    }
    let mut joint =
        JointDecision { decisions: Vec::with_capacity(places.len()), receipts: Vec::new() };
    if let [place] = places.as_slice()
        && place.demand.charge() == Some(place.demand.cost())
    {
        let (decision, charged) =
            place.handle.decide(place.key, place.demand.cost(), Duration::ZERO);
        joint.decisions.push(Some(decision));
        if let Some(charged) = charged.filter(|_| place.demand.wants_receipt()) {
            joint.receipts.push((0, place.handle.receipt(place.key, charged)));
        }
        return Some(joint);
    }
    // Waiters come first.
    let refusal = |place: &Place<'_, C>| place.handle.refusal(place.key, place.demand.cost());
    let refusals: SmallVec<[_; 4]> = places.iter().map(refusal).collect();
    // The clock shows two times, each of which is read once for limits whose states are read without a lock.
    let mut times = [None; 2];
    let clocks: SmallVec<[_; 4]> = places.iter().map(|place| || place.handle.now()).collect();
    let mut asks = SmallVec::<[_; 4]>::new();
    for (place, clock) in places.iter().zip(&clocks) {
        let [monotonic, unix] = &mut times;
        let time = if place.handle.reads_unix_time() { unix } else { monotonic };
        asks.push(place.ask(clock, *time.get_or_insert_with(clock)));
    }
    let mut list = List::read(&asks, None);
    let at = list.now;
    let may_charge = list.fits() && refusals.iter().all(Option::is_none);
    let charged = may_charge.then(|| list.charge(at));
    if let Some(Ok(())) = charged {
        for (index, place) in places.iter().enumerate() {
            joint.decisions.push(Some(list.decision(index, Some(Duration::ZERO))));
            if place.demand.wants_receipt()
                && let Some(charged) = list.charged(index, at)
            {
                joint.receipts.push((index, place.handle.receipt(place.key, charged)));
            }
        }
        return Some(joint);
    }
    let refused = charged.and_then(Result::err);
    let decisions = places.iter().zip(refusals).enumerate().map(|(index, (place, waiting))| {
        let decision = match refused {
            Some((refused, refusal)) if refused == index => refusal,
            _ => waiting.unwrap_or_else(|| list.decision(index, list.wait(index))),
        };
        if !decision.is_admitted() && decision.source() == Source::FullTable {
            place.handle.states.count_full();
        }
        Some(decision)
    });
    joint.decisions.extend(decisions);
    Some(joint)
}

impl<C: Clock> Place<'_, C> {
    fn ask<'a>(&'a self, clock: &'a impl Fn() -> Timestamp, now: Timestamp) -> Ask<'a> {
        Ask {
            limiter: self.handle.id(),
            states: &self.handle.states,
            key: self.key,
            clock,
            now,
            cost: self.demand.cost(),
            charge: self.demand.charge(),
        }
    }
}
