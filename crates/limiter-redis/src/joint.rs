//! One decision over demands on several limiters of one client.

use std::time::Duration;

use limiter_core::{Decision, Demand, Error, ErrorKind, JointDecision, LimiterFuture, Reservation};

use crate::{
    call::decide::{Decide, Part},
    client::{
        ScriptClient,
        faults::{CallError, Fault},
    },
    limiter::RedisLimiter,
    scripts::Ask,
};
use bytes::Bytes;

/// A demand, and the limiter that it is for.
struct Place<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    part: Part,
}

/// Charges all demands by one call, or none. Returns `None` if permits are leased. Other demands of the list are decided
/// elsewhere if this is a part of it.
pub(crate) fn decide<C: ScriptClient>(
    demands: &[Demand<'_>],
    is_part: bool,
) -> Option<LimiterFuture<JointDecision>> {
    let mut places = Vec::with_capacity(demands.len());
    for demand in demands {
        let limiter: &RedisLimiter<C> = demand.limiter().as_any().downcast_ref()?;
        let (context, charge) = (&limiter.sender.context, demand.charge());
        if is_part {
            // What other processes charge may be given back at once.
            context.denials.shorten(context.settings.deadline);
        }
        if limiter.lease().is_some() || charge.is_some_and(|charge| charge != demand.cost()) {
            return None;
        }
        let key = match context.keys.of(demand.key()) {
            Ok(key) => key,
            Err(error) => return Some(LimiterFuture::ready(Err(error))),
        };
        let part = Part::new(context, &limiter.handle, key, demand.cost());
        let part = Part { only_asks: charge.is_none(), ..part };
        places.push(Place { limiter: limiter.clone(), part });
    }
    if let Some(error) = twice(&places) {
        return Some(LimiterFuture::ready(Err(error)));
    }
    let denied = |place: &Place<C>| place.limiter.cached_denial(&place.part.key, place.part.cost);
    let denied: Vec<_> = places.iter().map(denied).collect();
    if denied.iter().any(Option::is_some) {
        let decided = denied.into_iter().map(|denied| denied.map(Reservation::refused));
        return Some(LimiterFuture::ready(Ok(decided.collect())));
    }
    Some(LimiterFuture::pending(call(places)))
}

/// Returns the error of two limiters with the same states.
fn twice<C: ScriptClient>(places: &[Place<C>]) -> Option<Error> {
    let mut known: Vec<(Bytes, &str)> = Vec::new();
    for Place { limiter, part } in places {
        let (name, mut keys) = (limiter.policy().name(), Vec::new());
        limiter.sender.context.keys.add_all(&part.key, &mut keys);
        for key in keys {
            if let Some((_, other)) = known.iter().find(|(other, _)| *other == key) {
                let message = format!(
                    "invalid list of demands: the limiters {other:?} and {name:?} have the same states; use \
                     one of them"
                );
                return Some(Error::new(ErrorKind::InvalidSetting, message));
            }
            known.push((key, name));
        }
    }
    None
}

async fn call<C: ScriptClient>(places: Vec<Place<C>>) -> Result<JointDecision, Error> {
    let parts = places.iter().map(|place| place.part.clone()).collect();
    let Some(Place { limiter: first, part: Part { key, .. } }) = places.first() else {
        return Ok(JointDecision::default());
    };
    let decide = Decide { parts, ask: Ask::Within(Duration::ZERO) };
    match first.sender.operate(&first.handle, key, decide).await {
        Ok(replies) => {
            let decided = places.into_iter().zip(replies);
            let reserved = |(place, it): (Place<C>, _)| place.limiter.reserved(place.part.key, it);
            Ok(decided.map(reserved).map(Some).collect())
        }
        Err(error) => {
            if CallError::of(&error).is_some_and(|call| call.fault() == Fault::CrossSlot) {
                first.sender.stop_batches(key);
            }
            without_store(&places, error)
        }
    }
}

/// Returns the fallbacks' decision: all of them admit, or what they charged is given back.
fn without_store<C: ScriptClient>(
    places: &[Place<C>],
    error: Error,
) -> Result<JointDecision, Error> {
    let mut decided = Vec::with_capacity(places.len());
    for place in places {
        let reservation = place.fallback(&error);
        let is_admitted = reservation.as_ref().is_some_and(Reservation::is_admitted);
        let has_fallback = reservation.is_some();
        decided.push(reservation);
        if is_admitted {
            continue;
        }
        for (place, reservation) in places.iter().zip(&mut decided) {
            *reservation = reservation.take().map(|it| place.give_back(it));
        }
        if !has_fallback {
            return Err(error);
        }
        // The others are not asked.
        decided.resize_with(places.len(), || None);
        break;
    }
    Ok(decided.into_iter().collect())
}

impl<C: ScriptClient> Place<C> {
    /// Returns the decision of the fallback, if there is one.
    fn fallback(&self, error: &Error) -> Option<Reservation> {
        let Self { limiter, part: Part { key, cost, only_asks, .. } } = self;
        if !only_asks {
            return limiter.fallback(key, *cost, Ask::Within(Duration::ZERO), error);
        }
        let local = limiter.locally(key, error, |local| local.peek(key)).map(|usage| {
            match usage.remaining() >= cost.get() {
                true => Decision::admitted(usage),
                false => Decision::refused(usage, Some(usage.reset_after())),
            }
        });
        let decision = local.or_else(|| limiter.without_store(key, error))?;
        Some(match decision.is_admitted() {
            true => Reservation::uncounted(decision, 0),
            false => Reservation::refused(decision),
        })
    }

    /// Gives back what the fallback in memory has charged, and returns the decision without it.
    fn give_back(&self, reservation: Reservation) -> Reservation {
        let (decision, is_admitted) = (reservation.decision(), reservation.is_admitted());
        if let (Some(local), Some(receipt)) =
            (&self.limiter.handle.local, reservation.into_receipt())
        {
            local.refund(receipt);
        }
        if is_admitted {
            Reservation::uncounted(decision, 0)
        } else {
            Reservation::refused(decision)
        }
    }
}
