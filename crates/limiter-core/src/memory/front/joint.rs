//! One decision over several limiters in memory that share a clock.

use std::time::Duration;

use smallvec::SmallVec;

use super::{handle::Handle, limiter::MemoryLimiter};
use crate::{Clock, Cost, Decision, Demand, JointDecision, Reservation, Timestamp};

/// The state that a demand is for.
struct Place<'a, C> {
    handle: &'a Handle<C>,
    hash: u64,
    charge: Option<Cost>,
    decision: Decision,
}

/// Charges all demands if all fit, or none. Returns `None` if one is not for a limiter in memory with this clock.
///
/// All are read before one is charged, so that a refusal writes nothing. To charge them in turn and to refund them would
/// leave debts, because a refund gives back the cost less what has drained.
pub(super) fn decide<C: Clock + 'static>(demands: &[Demand<'_>]) -> Option<JointDecision> {
    let mut present = Present::default();
    let mut places = SmallVec::<[_; 4]>::new();
    for demand in demands {
        let limiter = demand.limiter().as_any().downcast_ref::<MemoryLimiter<C>>()?;
        let (handle, hash, cost) = (&limiter.handle, limiter.hash(demand.key()), demand.cost());
        let preview = handle.preview_at(hash, present.of(handle), cost);
        let (charge, decision) = (demand.charge(), demand.decision(preview));
        places.push(Place { handle, hash, charge, decision });
    }
    if places.iter().any(|place| !place.decision.is_admitted()) {
        places.iter().for_each(|place| place.handle.count_full(&place.decision));
        return Some(places.iter().map(Place::uncharged).collect());
    }
    let mut reservations = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        let reservation = place.charge(&mut present);
        if reservation.is_admitted() {
            reservations.push(reservation);
            continue;
        }
        // Another thread has charged the key meanwhile.
        for (charged, place) in reservations.into_iter().zip(&places) {
            if let Some(receipt) = charged.into_receipt() {
                place.handle.refund(&receipt);
            }
        }
        if let Some(place) = places.get_mut(index) {
            place.decision = reservation.decision();
        }
        return Some(places.iter().map(Place::uncharged).collect());
    }
    Some(reservations.into_iter().map(Some).collect())
}

impl<C: Clock> Place<'_, C> {
    /// Charges the cost if it still fits.
    fn charge(&self, present: &mut Present) -> Reservation {
        let Some(cost) = self.charge else { return Reservation::uncounted(self.decision) };
        let outcome = self.handle.reserve_at(self.hash, present.of(self.handle), cost);
        self.handle.reservation(self.hash, outcome, Duration::ZERO)
    }

    /// Returns the decision, which has charged nothing.
    fn uncharged(&self) -> Option<Reservation> {
        Some(match self.decision.is_admitted() {
            true => Reservation::uncounted(self.decision),
            false => Reservation::refused(self.decision),
        })
    }
}

/// The present of limiters that share a clock, read once.
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
