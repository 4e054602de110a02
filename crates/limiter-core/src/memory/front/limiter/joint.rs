//! One decision over several limiters in memory that share a clock.

use std::time::Duration;

use smallvec::SmallVec;

use super::{Handle, MemoryLimiter};
use crate::{Clock, Cost, Decision, Demand, JointDecision, Reservation, Timestamp};

/// A demand, and the handle on the states that it is for.
struct Place<'a, C> {
    handle: &'a Handle<C>,
    hash: u64,
    demand: &'a Demand<'a>,
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
        places.push(Place { handle: &limiter.handle, hash: limiter.hash(demand.key()), demand });
    }
    let mut present = Present::default();
    let mut parts = Vec::with_capacity(places.len());
    let (mut fits, mut has_charge) = (true, false);
    for place in &places {
        let charge = place.demand.charge();
        let is_read = has_charge || charge != Some(place.demand.cost());
        has_charge |= charge.is_some();
        let decision = is_read.then(|| place.read(&mut present));
        fits &= decision.is_none_or(|decision| decision.is_admitted());
        parts.push(decision.map(Reservation::uncharged));
    }
    let refused = match fits {
        true => charge(&places, &mut parts, &mut present),
        false => Some(usize::MAX),
    };
    if let Some(charged) = refused {
        refuse(&places, &mut parts, &mut present, charged);
    }
    Some(JointDecision(parts))
}

/// Charges the demands in their order, until one does not fit: the first one, which was not read, or one that another
/// thread has charged meanwhile. Returns the index of that one.
fn charge<C: Clock>(
    places: &[Place<'_, C>],
    parts: &mut [Option<Reservation>],
    present: &mut Present,
) -> Option<usize> {
    for (index, (place, part)) in places.iter().zip(parts).enumerate() {
        if let Some(cost) = place.demand.charge() {
            let reservation = place.charge(present, cost);
            let is_admitted = reservation.is_admitted();
            *part = Some(reservation);
            if !is_admitted {
                return Some(index);
            }
        }
    }
    None
}

/// Gives back what was charged, reads what was not read, and counts refusals by a full table, but that of the `charged`
/// demand, which its charge has counted.
#[cold]
fn refuse<C: Clock>(
    places: &[Place<'_, C>],
    parts: &mut [Option<Reservation>],
    present: &mut Present,
    charged: usize,
) {
    for (index, (place, part)) in places.iter().zip(parts).enumerate() {
        let known = part.take();
        let decision = known.as_ref().map(Reservation::decision);
        let receipt = known.and_then(Reservation::into_receipt);
        let decision = match (decision, receipt) {
            (Some(decision), None) => decision,
            (_, receipt) => {
                if let Some(receipt) = receipt {
                    place.handle.refund(&receipt);
                }
                place.read(present)
            }
        };
        if index != charged {
            place.handle.count_full(&decision);
        }
        *part = Some(Reservation::uncharged(decision));
    }
}

impl<C: Clock> Place<'_, C> {
    /// Returns whether the cost fits, with the usage before a charge.
    fn read(&self, present: &mut Present) -> Decision {
        let (now, cost) = (present.of(self.handle), self.demand.cost());
        self.demand.decision(self.handle.preview_at(self.hash, now, cost))
    }

    /// Charges a cost if it still fits.
    fn charge(&self, present: &mut Present, cost: Cost) -> Reservation {
        let outcome = self.handle.reserve_at(self.hash, present.of(self.handle), cost);
        self.handle.reservation(self.hash, outcome, Duration::ZERO, cost.get())
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
