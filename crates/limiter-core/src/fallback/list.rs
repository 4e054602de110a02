//! One decision over demands on fallbacks of one store.

use alloc::vec::Vec;

use super::pair::{Pair, as_local, charged};
use crate::{
    Demand, Error, JointDecision, Limiter, LimiterFuture, Reservation, decide, joint::Owned,
};

/// Returns the limiters of a demand, if it is on a fallback.
fn pair<'a>(demand: &Demand<'a>) -> Option<&'a Pair> {
    demand.limiter().as_any().downcast_ref()
}

/// Charges all demands by the store, or all by local limiters if the store fails, or none.
pub(super) fn decide_all(
    store: &dyn Limiter,
    demands: &[Demand<'_>],
    is_part: bool,
) -> LimiterFuture<JointDecision> {
    let of_store = demands.iter().map(|demand| match pair(demand) {
        Some(pair) => demand.clone().on(&*pair.store),
        None => demand.clone(),
    });
    let of_store: Vec<_> = of_store.collect();
    let together = store.decide_together(&of_store, is_part);
    let decided = together.unwrap_or_else(|| decide(&of_store));
    // By a cached denial, for example: nothing is charged.
    if decided.as_ready().is_some_and(|it| it.as_ref().is_ok_and(|it| !it.is_admitted())) {
        return decided;
    }
    let local = |(place, demand)| Some(Owned::on(pair(demand)?.local(), demand, place));
    let locals: Vec<_> = demands.iter().enumerate().map(local).collect();
    LimiterFuture::pending(async move {
        match decided.await {
            Ok(joint) if joint.is_admitted() => Ok(follow(joint, &locals).await),
            Err(error) if error.is_of_store() => decide_locally(&locals, error).await,
            decided => decided,
        }
    })
}

/// Charges local limiters with what the store has charged.
async fn follow(joint: JointDecision, locals: &[Option<Owned>]) -> JointDecision {
    let JointDecision { decisions, receipts: of_store } = joint;
    let (mut of_store, mut receipts) = (of_store.into_iter().peekable(), Vec::new());
    for (index, local) in locals.iter().enumerate() {
        let receipt = of_store.next_if(|(place, _)| *place == index);
        let Some(Owned { limiter, key, charge, .. }) = local else {
            receipts.extend(receipt);
            continue;
        };
        let Some(charge) = *charge else { continue };
        let followed = limiter.take_up_to(key, charge).await;
        let followed = followed.ok().and_then(Reservation::into_receipt);
        receipts.extend(receipt.map(|(index, it)| (index, charged(it, followed))));
    }
    JointDecision { decisions, receipts }
}

/// Charges all demands by local limiters, or none. Returns the store's error if one has none.
async fn decide_locally(locals: &[Option<Owned>], error: Error) -> Result<JointDecision, Error> {
    let demands = locals.iter().map(|local| local.as_ref().map(Owned::demand));
    let Some(demands) = demands.collect::<Option<Vec<_>>>() else { return Err(error) };
    let decided = decide(&demands);
    drop(demands);
    let mut joint = decided.await.map_err(|_| error)?;
    for decision in joint.decisions.iter_mut().flatten() {
        *decision = as_local(*decision);
    }
    Ok(joint)
}
