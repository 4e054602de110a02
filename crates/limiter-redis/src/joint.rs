//! One decision over demands on several limiters of one client.

use std::time::Duration;

use limiter_core::{Decision, Demand, Error, JointDecision, LimiterFuture, Reservation};

use crate::{
    call::list::{Ask, Decide, Part},
    client::ScriptClient,
    denials::Denials,
    limiter::RedisLimiter,
};

/// A demand, and the limiter that it is for.
struct Place<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    part: Part,
}

/// Demands that are decided together, and what is decided by now.
struct List<C: ScriptClient> {
    places: Vec<Place<C>>,
    decided: Vec<Option<Reservation>>,
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
        places.push(Place { limiter: limiter.clone(), part });
    }
    // In one call the second of them would not see what the first is charged.
    if share_a_state(&places) {
        return None;
    }
    let denied: Vec<_> = places.iter().map(Place::denial).collect();
    if denied.iter().any(Option::is_some) {
        let decided = denied.into_iter().map(|denied| denied.map(Reservation::refused));
        return Some(LimiterFuture::ready(Ok(decided.collect())));
    }
    let decided = places.iter().map(|_| None).collect();
    Some(LimiterFuture::pending(List { places, decided }.decide()))
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

impl<C: ScriptClient> List<C> {
    /// Charges all demands, or none.
    async fn decide(mut self) -> Result<JointDecision, Error> {
        let is_admitted = self.charge().await;
        if !matches!(is_admitted, Ok(true)) {
            self.give_back().await;
        }
        is_admitted.map(|_| self.decided.into_iter().collect())
    }

    /// Charges demands until one refuses, and returns whether all were admitted. Leased permits are spent first, because
    /// that takes no call.
    async fn charge(&mut self) -> Result<bool, Error> {
        for (place, decided) in self.places.iter().zip(&mut self.decided) {
            if let Some(leased) = place.spend_lease().await {
                let leased = decided.insert(leased?);
                if !leased.is_admitted() {
                    return Ok(false);
                }
            }
        }
        let places = self.places.iter().zip(&mut self.decided);
        let others: Vec<_> = places.filter(|(_, decided)| decided.is_none()).collect();
        let Some((Place { limiter, part: first }, _)) = others.first() else { return Ok(true) };
        let parts = others.iter().map(|(place, _)| place.part.clone()).collect();
        let (first, ask) = (first.clone(), Ask::Within(Duration::ZERO));
        let replies = limiter.operate(Decide { first, parts, ask }).await?;
        let mut is_admitted = true;
        for ((Place { limiter, part }, decided), reply) in others.into_iter().zip(replies) {
            let reserved = decided.insert(limiter.reserved(part.key.clone(), reply));
            is_admitted &= reserved.is_admitted();
        }
        Ok(is_admitted)
    }

    /// Gives back what leases have charged. The call of the list itself charges all or none.
    async fn give_back(&mut self) {
        for (place, decided) in self.places.iter().zip(&mut self.decided) {
            let Some(charged) = decided.take() else { continue };
            let (decision, is_admitted) = (charged.decision(), charged.is_admitted());
            if let Some(receipt) = charged.into_receipt() {
                drop(place.limiter.refund(receipt).await);
            }
            *decided = Some(match is_admitted {
                true => Reservation::uncounted(decision, 0),
                false => Reservation::refused(decision),
            });
        }
    }
}

impl<C: ScriptClient> Place<C> {
    /// Spends permits of a lease, `None` if the store has to decide.
    async fn spend_lease(&self) -> Option<Result<Reservation, Error>> {
        let Self { limiter, part: Part { key, cost, only_asks, .. } } = self;
        let leases = limiter.leases.as_ref().filter(|_| !only_asks)?;
        limiter.reserve_leased(leases, key, *cost, Duration::ZERO).await
    }

    /// Returns a cached denial. Leased permits may be there all the same.
    fn denial(&self) -> Option<Decision> {
        let Self { limiter, part: Part { key, cost, .. } } = self;
        limiter.lease().is_none().then(|| limiter.cached_denial(key, *cost))?
    }
}
