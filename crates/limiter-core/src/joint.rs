//! One decision over several demands: all are charged, or none.

use alloc::{format, sync::Arc, vec, vec::Vec};
use core::{future::poll_fn, mem, task::Poll, time::Duration};

use smallvec::SmallVec;

use crate::{
    Cost, Decision, Demand, Error, ErrorKind, JointDecision, Key, Limiter, LimiterFuture, Receipt,
    Reservation, Usage, limiter::MAX_DEMANDS,
};

/// Charges all demands if all fit now, or none.
///
/// ```
/// use limiter_core::{Cost, Demand, MemoryLimiter, Policy, Quota, decide};
///
/// # futures::executor::block_on(async {
/// let users = MemoryLimiter::new(Policy::gcra("user", Quota::per_minute(60)));
/// let tenants = users.sibling(&Policy::fixed_window("tenant", Quota::per_hour(1_000)));
/// let tokens = users.sibling(&Policy::gcra("tokens", Quota::per_minute(10_000)));
///
/// let demands = |tokens_of_request| [
///     Demand::new(&users, "alice", Cost::ONE),
///     Demand::new(&tenants, "acme", Cost::ONE),
///     Demand::new(&tokens, "alice", Cost::of(tokens_of_request)),
/// ];
/// assert!(decide(&demands(9_000)).await?.is_admitted());
///
/// // The tokens don't fit, so nothing is charged, and they need 48 s to recover.
/// let decision = decide(&demands(9_000)).await?;
/// let refusing: Vec<usize> = decision.refusing().map(|(index, _)| index).collect();
/// assert_eq!(refusing, [2]);
/// assert!(decision.retry_after().is_some_and(|wait| wait.as_secs() == 47));
/// assert_eq!(users.peek("alice").remaining(), 59);
/// # Ok::<(), limiter_core::Error>(())
/// # }).unwrap();
/// ```
///
/// Two demands for one key of one limiter are one demand: the sum of their costs has to fit, and what is charged is the
/// cost of those that do not only ask. The order of the demands never changes the outcome, with one exception: of two
/// demands under different policies that share the key's state, the second one has to fit beside the first. An empty list
/// is admitted.
///
/// # Stores
///
/// Limiters in memory decide at once: the future is [ready](LimiterFuture::take_ready). No other thread changes the states
/// of the demands meanwhile, or what was charged is given back and the list is decided again under locks.
/// [Siblings](Limiter::sibling), and limiters with the default clock, share one reading of the clock.
///
/// A store decides on its demands by one call [if it can](crate::Store::decide_together); through Redis, not if two of them
/// are on one state, which are charged in turn. With several stores or
/// [shards](crate::Store::shard), limiters in memory are read first, and a refusal by them costs no call. Those
/// before the first store in the list are charged at once. Then the stores are called in the order of the list, and the
/// other limiters in memory are charged last. If one of them refuses or fails, the receipts of those before are refunded.
/// So the limits are never exceeded, but a decision may be refused because of another one that is then refused itself.
///
/// If the future is dropped before it is ready, what was charged stays, and stores that were called may charge. So put the
/// client's own key first, and what it can choose or shares with others last: a client that resets its requests then uses
/// up its own permits.
///
/// # Errors
///
/// [`ErrorKind::InvalidSetting`] if there are more than 16 demands. Otherwise the first
/// error of a store, which [`Error::limiter`] identifies if there are several; what was charged in others is given back.
pub fn decide(demands: &[Demand<'_>]) -> LimiterFuture<JointDecision> {
    match Merged::of(demands) {
        Ok(None) => decide_distinct(demands),
        Ok(Some(Merged { demands, places })) => {
            decide_distinct(&demands).map(move |joint| joint.split(&places))
        }
        Err(error) => LimiterFuture::ready(Err(error)),
    }
}

/// Decides on demands that all differ in key, limiter or policy.
fn decide_distinct(demands: &[Demand<'_>]) -> LimiterFuture<JointDecision> {
    let [first, others @ ..] = demands else {
        return LimiterFuture::ready(Ok(JointDecision::default()));
    };
    if !others.iter().all(|it| it.shares_shard_with(first)) {
        return in_turn(demands, true);
    }
    let together = first.limiter().decide_together(demands, false);
    together.unwrap_or_else(|| in_turn(demands, false))
}

/// Demands that all differ in key, limiter or policy, and the place of each of the caller's demands among them.
struct Merged<'a> {
    demands: Vec<Demand<'a>>,
    places: Vec<usize>,
}

impl<'a> Merged<'a> {
    /// Joins demands for one key of one limiter under one policy to one with the sum of their costs. Returns `None` if there
    /// are none.
    fn of(demands: &[Demand<'a>]) -> Result<Option<Self>, Error> {
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

/// Decides on demands one by one, or in one step for each shard of a store.
///
/// Reads all demands that can be read without a call. If they fit, asks the others, group by group, and then charges
/// those that were read. If one does not fit, the receipts of those before are refunded.
fn in_turn(demands: &[Demand<'_>], by_shard: bool) -> LimiterFuture<JointDecision> {
    let preview = |it: &Demand<'_>| {
        it.limiter().preview(it.key(), it.cost()).map(|preview| it.decision(preview))
    };
    let previews: SmallVec<[Option<Decision>; 4]> = demands.iter().map(preview).collect();
    if previews.iter().flatten().any(|decision| !decision.is_admitted()) {
        return LimiterFuture::ready(Ok(JointDecision::of_reads(previews)));
    }
    let is_read = |place: usize| previews.get(place).is_some_and(Option::is_some);
    // Demands before the first one that needs a call are charged at once.
    let first_call = (0..demands.len()).find(|place| !is_read(*place)).unwrap_or(demands.len());
    let kind = |place: usize| (place >= first_call, is_read(place));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, demand) in demands.iter().enumerate() {
        let has_demand = |group: &&mut Vec<usize>| {
            let first = group.first().copied().unwrap_or_default();
            let other =
                demands.get(first).is_some_and(|other| by_shard && demand.shares_shard_with(other));
            other && kind(first) == kind(place)
        };
        match groups.iter_mut().find(has_demand) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    // Of those after the first call, those that need none are charged last, without an await in between.
    // Those that only ask come before charges, so that their refusal finds nothing to give back.
    let only_asks = |place: &usize| demands.get(*place).is_some_and(Demand::only_asks);
    groups.sort_by_key(|group| (group.first().copied().map(kind), !group.iter().all(only_asks)));
    let mut owned = Vec::new();
    for group in &groups {
        let demands = group.iter().filter_map(|&place| Some((place, demands.get(place)?)));
        let demands = demands.map(|(place, demand)| Owned::of(demand, place));
        match demands.collect::<Result<Vec<_>, Error>>() {
            Ok(demands) => owned.push(demands),
            Err(error) => return LimiterFuture::ready(Err(error)),
        }
    }
    let at_once = groups.iter().take_while(|group| group.first() < Some(&first_call)).count();
    let decided = JointDecision::of_reads(previews);
    let charged = charge_in_turn(owned, at_once, decided);
    if at_once > 0 { LimiterFuture::polled(charged) } else { LimiterFuture::pending(charged) }
}

/// A demand that outlives its caller, and its place in the list.
pub(crate) struct Owned {
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) key: Key<'static>,
    cost: Cost,
    pub(crate) charge: Option<Cost>,
    wants_receipt: bool,
    place: usize,
}

impl Owned {
    fn of(demand: &Demand<'_>, place: usize) -> Result<Self, Error> {
        let limiter = demand.limiter();
        let handle = limiter.with_policy(limiter.policy());
        let handle = handle.map_err(|error| error.of_limiter(limiter.id()))?;
        Ok(Self::on(handle, demand, place))
    }

    /// Returns a demand for the same permits of another limiter.
    pub(crate) fn on(limiter: Arc<dyn Limiter>, demand: &Demand<'_>, place: usize) -> Self {
        let (key, cost, charge) =
            (demand.key().clone().into_owned(), demand.cost(), demand.charge());
        Self { limiter, key, cost, charge, wants_receipt: demand.wants_receipt(), place }
    }

    pub(crate) fn demand(&self) -> Demand<'_> {
        Demand::new(&self.limiter, &self.key, self.cost).charging(self.charge)
    }

    /// Decides on this demand alone. `is_read` if the cost is known to fit.
    async fn decide(&self, is_read: bool) -> Result<Reservation, Error> {
        let Self { limiter, key, cost, charge, .. } = self;
        if !is_read && *charge != Some(*cost) {
            let decision = fits(&limiter.peek(key).await?, *cost);
            if charge.is_none() || !decision.is_admitted() {
                return Ok(Reservation::uncharged(decision));
            }
        }
        limiter.reserve(key, charge.unwrap_or(*cost), Duration::ZERO).await
    }

    /// Refunds what was charged, and returns the decision without it.
    async fn give_back(&self, decision: Decision, receipt: Receipt) -> Decision {
        let permits = receipt.permits();
        // A store that fails counts and reports refunds that it has lost.
        drop(self.limiter.refund(receipt).await);
        let usage = decision.usage();
        let remaining = usage.remaining().saturating_add(permits).min(usage.burst());
        let before = Usage::new(usage.burst(), remaining, usage.reset_after());
        let before = before.with_limit_index(usage.limit_index());
        Decision::admitted(before).with_source(decision.source())
    }
}

/// Returns whether a cost fits at `usage`. How long it has to wait is not known, but at most until the key has recovered.
fn fits(usage: &Usage, cost: Cost) -> Decision {
    match usage.remaining() >= cost.get() {
        true => Decision::admitted(*usage),
        false => {
            let wait = (cost.get() <= usage.burst()).then(|| usage.reset_after());
            Decision::refused(*usage, wait)
        }
    }
}

/// Decides on a group in one step if its store can, or on each demand alone. `is_read` if the costs are known to fit.
async fn decide_group(group: &[Owned], is_read: bool) -> Result<JointDecision, Error> {
    let demands: Vec<_> = group.iter().map(Owned::demand).collect();
    let joint = match group {
        [] => return Ok(JointDecision::default()),
        [first, others @ ..] => match first.limiter.decide_together(&demands, true) {
            Some(joint) => joint,
            None if others.is_empty() => {
                let decided = first.decide(is_read).await?;
                return Ok([Some(decided)].into_iter().collect());
            }
            None => in_turn(&demands, false),
        },
    };
    drop(demands);
    joint.await
}

/// Decides on the groups in turn, and refunds what was charged if one of them refuses or fails. The first poll decides only
/// on those `at_once`, if there are any.
async fn charge_in_turn(
    groups: Vec<Vec<Owned>>,
    at_once: usize,
    mut decided: JointDecision,
) -> Result<JointDecision, Error> {
    for (index, group) in groups.iter().enumerate() {
        if index == at_once && index > 0 {
            pause().await;
        }
        let is_read = group.iter().all(|it| decided.decision(it.place).is_some());
        // Those that only ask have been read.
        if is_read && group.iter().all(|it| it.charge.is_none()) {
            continue;
        }
        let result = decide_group(group, is_read).await.map(|joint| {
            let is_admitted = joint.is_admitted();
            decided.add(group, joint);
            is_admitted
        });
        let result = result.map_err(|error| match group.first() {
            Some(failed) => error.of_limiter(failed.limiter.id()),
            None => error,
        });
        if matches!(result, Ok(true)) {
            continue;
        }
        for (place, receipt) in mem::take(&mut decided.receipts) {
            let owned = groups.iter().flatten().find(|it| it.place == place);
            let known = decided.decisions.get_mut(place).and_then(Option::as_mut);
            if let (Some(owned), Some(known)) = (owned, known) {
                *known = owned.give_back(*known, receipt).await;
            }
        }
        return result.map(|_| decided);
    }
    // Each was kept until all had admitted.
    decided.receipts.retain(|(place, _)| {
        groups.iter().flatten().any(|it| it.place == *place && it.wants_receipt)
    });
    Ok(decided)
}

impl JointDecision {
    /// Returns what was read of each demand. Nothing is charged.
    const fn of_reads(decisions: SmallVec<[Option<Decision>; 4]>) -> Self {
        Self { decisions, receipts: Vec::new() }
    }

    /// Adds the decision on some of the demands.
    fn add(&mut self, group: &[Owned], joint: Self) {
        for (Owned { place, .. }, decision) in group.iter().zip(joint.decisions) {
            if let Some(known) = self.decisions.get_mut(*place) {
                *known = decision;
            }
        }
        let place_of = |index: usize| group.get(index).map(|owned| owned.place);
        let receipts = joint.receipts.into_iter();
        self.receipts.extend(receipts.filter_map(|(index, it)| Some((place_of(index)?, it))));
        // Groups are not in the order of the list.
        self.receipts.sort_by_key(|(place, _)| *place);
    }
}

/// Is pending when it is polled first, and then ready.
async fn pause() {
    let mut was_polled = false;
    poll_fn(|_| match mem::replace(&mut was_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
