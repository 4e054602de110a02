//! What a limiter can be asked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{
    Answer, Check, Cost, Decision, Error, Key, Limiter, Policy, Receipt, Reservation, Usage,
    WaitingLimiter,
};

use crate::{
    acquire,
    client::ScriptClient,
    denials::{Denial, Denials, Ticket},
    limiter::RedisLimiter,
    receipts::Token,
    shared::Shared,
};

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> Policy {
        self.shared.policy(self.tier)
    }

    fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
        let Self { shared, tier } = self.clone();
        let key = shared.keys.of(key);
        if let Some(refusal) = shared.denials.find(&key, tier, cost, Instant::now()) {
            shared.events.tally().remembered();
            return Answer::ready(Ok(refusal));
        }
        Answer::pending(async move {
            let asked = Asked::now(&shared, &key, tier, cost);
            let plan = shared.plan();
            match shared.check(&plan, tier, &key, cost).await {
                Ok(taken) => {
                    asked.heard(&taken.decision);
                    if let (true, Some(local)) = (taken.decision.is_admitted(), &shared.local) {
                        drop(local.follow(tier, &key, cost));
                    }
                    Ok(taken.decision)
                }
                Err(error) => {
                    let locally = shared.locally(|local| local.decide(tier, &key, cost));
                    locally.or_else(|| shared.decision_without_store(tier)).ok_or(error)
                }
            }
        })
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        let Self { shared, tier } = self.clone();
        let key = shared.keys.of(key);
        Answer::pending(async move {
            let plan = shared.plan();
            let read = |reply: &[i64]| plan.peeked(tier, reply);
            match shared.ask(&key, plan.peek(tier), true, read).await {
                Err(error) => shared.locally(|local| local.peek(tier, &key)).ok_or(error),
                usage => usage,
            }
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        let Self { shared, tier } = self.clone();
        let key = shared.keys.of(key);
        Answer::pending(async move {
            let asked = Asked::now(&shared, &key, tier, cost);
            let plan = shared.plan();
            let call = plan.take(tier, cost, within);
            let answer = shared.ask(&key, call, false, |reply| plan.taken(tier, reply, cost)).await;
            let taken = match answer {
                Ok(taken) => taken,
                Err(error) => {
                    let locally = shared.locally(|local| local.reserve(tier, &key, cost, within));
                    let all_alike =
                        || Some(reserved_by(shared.decision_without_store(tier)?, cost));
                    return locally.or_else(all_alike).ok_or(error);
                }
            };
            asked.heard(&taken.decision);
            let Some(charged) = taken.charged else {
                return Ok(Reservation::refused(taken.decision));
            };
            let delay = charged.delay();
            let local = shared.local.as_ref().and_then(|local| local.follow(tier, &key, cost));
            let token = Token::new((shared.id, tier), key, charged, plan, local);
            Ok(Reservation::admitted(taken.decision, delay, token.into_receipt(cost)))
        })
    }

    fn refund(&self, receipt: Receipt) -> Answer<()> {
        let shared = Arc::clone(&self.shared);
        let Some(token) = receipt.token::<Token>() else {
            // By the limiter in memory, while the store failed; or another limiter's.
            if let Some(local) = &shared.local {
                local.refund(receipt);
            }
            return Answer::ready(Ok(()));
        };
        let plan = shared.plan();
        if token.limiter != shared.id || !token.plan.has_quotas_of(&plan) {
            return Answer::ready(Ok(()));
        }
        Answer::pending(async move {
            let Some(token) = receipt.token::<Token>() else {
                return Ok(());
            };
            if let (Some(local), Some(own)) = (&shared.local, token.take_local(receipt.permits())) {
                local.refund(own);
            }
            let _forgotten = Forgotten { denials: &shared.denials, key: &token.key };
            let call = plan.refund(token.tier, &token.charged, receipt.permits());
            shared.ask(&token.key, call, false, |reply| reply.first().map(drop)).await
        })
    }

    fn reset(&self, key: &Key<'_>) -> Answer<()> {
        let Self { shared, tier } = self.clone();
        let key = shared.keys.of(key);
        Answer::pending(async move {
            let plan = shared.plan();
            if let Some(local) = &shared.local {
                local.reset(&key);
            }
            let _forgotten = Forgotten { denials: &shared.denials, key: &key };
            shared.ask(&key, plan.reset(tier), false, |reply| reply.first().map(drop)).await
        })
    }

    fn replace(&self, policy: Policy) -> Result<(), Error> {
        self.shared.replace(policy)
    }

    fn tier(&self, name: &str) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::tier(self, name)?))
    }
}

impl<C: ScriptClient> WaitingLimiter for RedisLimiter<C> {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation> {
        let reserved = Limiter::reserve(self, key, cost, within.unwrap_or(Duration::MAX));
        Answer::pending(acquire::when_due(self.clone(), reserved))
    }
}

/// Returns what a decision that is the same for all means for a reservation.
fn reserved_by(decision: Decision, cost: Cost) -> Reservation {
    /// Nothing was charged, so nothing is given back.
    struct Uncharged;
    if decision.is_admitted() {
        let receipt = Receipt::of_store(Uncharged, cost.get());
        Reservation::admitted(decision, Duration::ZERO, receipt)
    } else {
        Reservation::refused(decision)
    }
}

/// What was noted before the policy was looked at and the store was asked for permits, so that no
/// refusal by an earlier policy is remembered.
struct Asked<'a, C> {
    shared: &'a Shared<C>,
    key: &'a [u8],
    tier: usize,
    cost: Cost,
    ticket: Ticket,
    sent: Instant,
}

impl<'a, C: ScriptClient> Asked<'a, C> {
    fn now(shared: &'a Shared<C>, key: &'a [u8], tier: usize, cost: Cost) -> Self {
        let ticket = shared.denials.ticket(key);
        Self { shared, key, tier, cost, ticket, sent: Instant::now() }
    }

    /// Counts the store's decision, and remembers it if it is a refusal.
    fn heard(self, decision: &Decision) {
        let Self { shared, key, tier, cost, ticket, sent } = self;
        shared.events.tally().decided(decision);
        if !decision.is_admitted() {
            let heard = Instant::now();
            let denial = Denial { key, tier, cost, decision: *decision, sent, heard };
            shared.denials.remember(ticket, &denial);
        }
    }
}

/// Forgets what is remembered of a key when something was given back to it, or may have been: also
/// where the answer is an error, or no one awaits it any more.
struct Forgotten<'a> {
    denials: &'a Denials,
    key: &'a [u8],
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.denials.forget(self.key);
    }
}
