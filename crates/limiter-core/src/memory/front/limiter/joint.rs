//! One decision over several limiters in memory that share a clock.

use smallvec::SmallVec;

use super::{Handle, MemoryLimiter};
use crate::{Clock, Decision, Demand, JointDecision, Receipt, Timestamp, charge::Charged};

/// A demand, the handle on the states that it is for, and what is known of it.
struct Place<'a, C> {
    handle: &'a Handle<C>,
    hash: u64,
    demand: &'a Demand<'a>,
    decision: Option<Decision>,
    charged: Option<Charged>,
}

/// Charges all demands if all fit, or none. Returns `None` if one is not for a limiter in memory with this clock: a
/// limiter of another crate has passed on the id of one.
///
/// All are read before one is charged, so that a refusal writes nothing. To charge them in turn and to refund them would
/// leave debts, because a refund gives back the cost less what has drained.
///
/// The first one that is charged is not read apart: it is charged if it fits, once the others are known to fit. That
/// makes a list of one demand a reservation.
pub(super) fn decide<C: Clock + 'static>(demands: &[Demand<'_>]) -> Option<JointDecision> {
    let mut places = SmallVec::<[_; 4]>::new();
    for demand in demands {
        let limiter: &MemoryLimiter<C> = demand.limiter().as_any().downcast_ref()?;
        let (handle, hash) = (&limiter.handle, limiter.hash(demand.key()));
        places.push(Place { handle, hash, demand, decision: None, charged: None });
    }
    let mut present = Present::default();
    let (mut fits, mut has_charge) = (true, false);
    for place in &mut places {
        let charge = place.demand.charge();
        let is_read = has_charge || charge != Some(place.demand.cost());
        has_charge |= charge.is_some();
        if is_read {
            fits &= place.read(&mut present);
        }
    }
    let refused = match fits {
        true => places.iter_mut().position(|place| !place.charge(&mut present)),
        false => Some(usize::MAX),
    };
    if let Some(charged) = refused {
        refuse(&mut places, &mut present, charged);
    }
    let receipts = places.iter().enumerate().filter(|(_, place)| place.demand.wants_receipt());
    let receipts = receipts.filter_map(|(index, place)| Some((index, place.receipt()?))).collect();
    Some(JointDecision { decisions: places.iter().map(|place| place.decision).collect(), receipts })
}

/// Gives back what was charged, reads what was not read, and counts refusals by a full table, but that of the `charged`
/// demand, which its charge has counted.
#[cold]
fn refuse<C: Clock>(places: &mut [Place<'_, C>], present: &mut Present, charged: usize) {
    for (index, place) in places.iter_mut().enumerate() {
        if let Some(charged) = place.charged.take() {
            place.handle.give_back(place.hash, &charged);
            place.decision = None;
        }
        if place.decision.is_none() {
            place.read(present);
        }
        if let Some(decision) = place.decision.filter(|_| index != charged) {
            place.handle.count_full(&decision);
        }
    }
}

impl<C: Clock> Place<'_, C> {
    /// Reads whether the cost fits, with the usage before a charge.
    fn read(&mut self, present: &mut Present) -> bool {
        let (now, cost) = (present.of(self.handle), self.demand.cost());
        let decision = self.demand.decision(self.handle.preview_at(self.hash, now, cost));
        self.decision = Some(decision);
        decision.is_admitted()
    }

    /// Charges the demand's charge, if it has one, and returns whether it fitted: the first demand was not read, and
    /// another thread may have charged the others meanwhile.
    fn charge(&mut self, present: &mut Present) -> bool {
        let Some(cost) = self.demand.charge() else { return true };
        let (decision, charged) = self.handle.reserve_at(self.hash, present.of(self.handle), cost);
        (self.decision, self.charged) = (Some(decision), charged);
        decision.is_admitted()
    }

    fn receipt(&self) -> Option<Receipt> {
        Some(self.handle.receipt(self.hash, self.charged?))
    }
}

/// The present of limiters that share a clock, read once for GCRA without a lock. Other states read it under their locks.
#[derive(Default)]
struct Present {
    monotonic: Option<Timestamp>,
    unix: Option<Timestamp>,
}

impl Present {
    fn of<C: Clock>(&mut self, handle: &Handle<C>) -> Timestamp {
        let known = if handle.reads_unix_time() { &mut self.unix } else { &mut self.monotonic };
        *known.get_or_insert_with(|| handle.now())
    }
}
