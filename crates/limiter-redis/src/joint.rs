//! One decision over demands on several limiters of one client.

use std::{sync::Arc, time::Duration};

use limiter_core::{Decision, Demand, Error, JointDecision, LimiterFuture, Reservation, Usage};

use crate::{
    call::list::{Ask, Decide, Part},
    client::ScriptClient,
    denials::Denials,
    limiter::RedisLimiter,
};

/// A demand, the limiter that it is for, and what is decided by now.
struct Place<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    part: Part,
    decided: Option<Reservation>,
}

/// Charges all demands or none, by one call and by leases. Other demands of the list are decided elsewhere if this is a
/// part of it.
pub(crate) fn decide<C: ScriptClient>(
    demands: &[Demand<'_>],
    is_part: bool,
) -> Option<LimiterFuture<JointDecision>> {
    let mut places = Vec::with_capacity(demands.len());
    for demand in demands {
        let limiter: &RedisLimiter<C> = demand.limiter().as_any().downcast_ref()?;
        let (context, charge) = (&limiter.context, demand.charge());
        // A demand that asks for more than it charges.
        if charge.is_some_and(|charge| charge != demand.cost()) {
            return None;
        }
        let key = match context.keys.of(demand.key()) {
            Ok(key) => key,
            Err(error) => return Some(LimiterFuture::ready(Err(error))),
        };
        let part = Part::new(context, &limiter.plan, key, demand.cost());
        // What other processes charge for a part of a list may be given back at once.
        let denied_for = if is_part { context.settings.deadline } else { Denials::MAX_AGE };
        let part = Part { only_asks: charge.is_none(), denied_for, ..part };
        places.push(Place { limiter: limiter.clone(), part, decided: None });
    }
    // In one call the second of them would not see what the first is charged.
    if share_a_state(&places) {
        return None;
    }
    for Place { limiter, part, decided } in &mut places {
        // Leased permits may be there although a denial is cached.
        let may_be_denied = limiter.lease().is_none();
        let denial = may_be_denied.then(|| limiter.cached_denial(&part.key, part.cost)).flatten();
        *decided = denial.map(Reservation::refused);
    }
    if places.iter().any(|place| place.decided.is_some()) {
        return Some(LimiterFuture::ready(Ok(decided(places))));
    }
    Some(LimiterFuture::pending(async move {
        let is_admitted = charge(&mut places).await;
        if !matches!(is_admitted, Ok(true)) {
            give_back(&mut places);
        }
        is_admitted.map(|_| decided(places))
    }))
}

fn decided<C: ScriptClient>(places: Vec<Place<C>>) -> JointDecision {
    places.into_iter().map(|place| place.decided).collect()
}

/// Returns whether two demands are on one state, by different policies or by limiters of one name.
fn share_a_state<C: ScriptClient>(places: &[Place<C>]) -> bool {
    let mut known = Vec::new();
    places.iter().any(|Place { part, .. }| {
        let mut states = part.plan.limits.iter().map(|limit| (&part.key, &limit.identity));
        let is_known = states.clone().any(|state| known.contains(&state));
        known.extend(&mut states);
        is_known
    })
}

/// Charges demands until one refuses, and returns whether all were admitted. Leased permits are spent first, because
/// that takes no call.
async fn charge<C: ScriptClient>(places: &mut [Place<C>]) -> Result<bool, Error> {
    let Some(deadline) = places.first().map(|place| place.limiter.deadline()) else {
        return Ok(true);
    };
    let (within, mut leased_of) = ((Duration::ZERO, deadline), Vec::new());
    for Place { limiter, part: Part { key, cost, only_asks, .. }, decided } in &mut *places {
        if let Some(leases) = limiter.leases.as_ref().filter(|_| !*only_asks)
            && let Some(leased) = limiter.reserve_leased(leases, key, *cost, within).await
        {
            if !decided.insert(leased?).is_admitted() {
                return Ok(false);
            }
            leased_of.push(Arc::clone(&limiter.context));
        }
    }
    let mut others: Vec<_> = places.iter_mut().filter(|it| it.decided.is_none()).collect();
    let mut is_admitted = true;
    if let Some(Place { limiter, part: first, .. }) = others.first() {
        let parts = others.iter().map(|place| place.part.clone()).collect();
        let (first, ask) = (first.clone(), Ask::Within(Duration::ZERO));
        let replies = limiter.operate(Decide { first, parts, ask, deadline }).await?;
        for (place, reply) in others.iter_mut().zip(replies) {
            let reserved = place.limiter.reserved(place.part.key.clone(), reply);
            is_admitted &= place.decided.insert(reserved).is_admitted();
        }
    }
    if is_admitted {
        leased_of.iter().for_each(|context| context.events.tally.admitted.add());
    }
    Ok(is_admitted)
}

/// Gives back what leases have charged, and replaces its decisions by those without it. The call of the list itself charges
/// all or none.
fn give_back<C: ScriptClient>(places: &mut [Place<C>]) {
    for Place { limiter, decided, .. } in places {
        let Some(charged) = decided.take() else { continue };
        let decision = charged.decision();
        *decided = Some(match charged.into_receipt() {
            Some(receipt) => {
                let decision = before(&decision, receipt.permits());
                limiter.give_back(receipt);
                Reservation::uncounted(decision, 0)
            }
            None if decision.is_admitted() => Reservation::uncounted(decision, 0),
            None => Reservation::refused(decision),
        });
    }
}

/// Returns an admission as it was before so many permits were charged.
fn before(decision: &Decision, permits: u64) -> Decision {
    let usage = decision.usage();
    let remaining = usage.remaining().saturating_add(permits).min(usage.burst());
    let before = Usage::new(usage.burst(), remaining, usage.reset_after());
    let before = before.with_limit_index(usage.limit_index());
    Decision::admitted(before).with_source(decision.source())
}
