//! The operations of the core's traits.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use limiter_core::{
    Answer, Cost, Decision, Error, Key, Limiter, Policy, Receipt, Reservation, Usage,
    WaitingLimiter,
};

use crate::{
    call::{
        denials::{Denial, Ticket},
        fallback::Local,
        faults::{CallError, reported},
        operation::Token,
        wait,
    },
    client::ScriptClient,
    events::{EventKind, FallbackKind},
    limiter::RedisLimiter,
};

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.handle.policy
    }

    fn store(&self) -> &'static str {
        "redis"
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> Answer<Decision> {
        let key = match self.shared.keys.of(key) {
            Ok(key) => key,
            Err(error) => return Answer::ready(Err(error)),
        };
        let denials = &self.shared.denials;
        if let Some(denial) = denials.find(&key, &self.handle.policy, cost, Instant::now()) {
            self.shared.events.tally.cached.add();
            return Answer::ready(Ok(denial));
        }
        let limiter = self.clone();
        Answer::pending(async move {
            limiter.send_check(&key, cost).await.or_else(|error| {
                let local = limiter.locally(&key, |local| local.decide(&key, cost));
                local.or_else(|| limiter.without_store(&key)).ok_or(error)
            })
        })
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            let usage = limiter.send_peek(&key).await;
            usage.or_else(|error| limiter.locally(&key, |local| local.peek(&key)).ok_or(error))
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            let (taken, local) = match limiter.send_reserve(&key, cost, within).await {
                Ok(taken) => taken,
                Err(error) => {
                    let local = limiter.locally(&key, |local| local.reserve(&key, cost, within));
                    let uncharged = || Some(uncharged(limiter.without_store(&key)?, cost));
                    return local.or_else(uncharged).ok_or(error);
                }
            };
            let Some(charged) = taken.charged else {
                return Ok(Reservation::refused(taken.decision));
            };
            let delay = charged.delay();
            let (handle, local) = (Arc::clone(&limiter.handle), Mutex::new(local));
            let token = Token { limiter: limiter.shared.id, key, charged, handle, local };
            let receipt = Receipt::of_store(Arc::new(token), cost.get());
            Ok(Reservation::admitted(taken.decision, delay, receipt))
        })
    }

    fn refund(&self, receipt: Receipt) -> Answer<u64> {
        match receipt.token::<Arc<Token>>() {
            Some(token) if token.limiter == self.shared.id => {
                let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&token.handle));
                let (limiter, token) = (Self { shared, handle }, Arc::clone(token));
                let permits = receipt.permits();
                Answer::pending(async move { limiter.send_refund(token, permits).await })
            }
            Some(_) => Answer::ready(Ok(0)),
            // The local fallback's receipt, or another limiter's.
            None => {
                let local = self.handle.local.as_ref();
                Answer::ready(Ok(local.map_or(0, |local| local.refund(receipt))))
            }
        }
    }

    fn reset(&self, key: &Key<'_>) -> Answer<()> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            if let Some(local) = &limiter.handle.local {
                local.reset(&key);
            }
            limiter.send_reset(&key).await
        })
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C: ScriptClient> WaitingLimiter for RedisLimiter<C> {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation> {
        let reserved = Limiter::reserve(self, key, cost, within.unwrap_or(Duration::MAX));
        Answer::pending(wait::until_due(self.clone(), reserved))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Returns the answer of the local fallback, if there is one.
    fn locally<T>(&self, key: &[u8], ask: impl FnOnce(&Local) -> T) -> Option<T> {
        let answer = ask(self.handle.local.as_ref()?);
        self.report(EventKind::Fallback(FallbackKind::Local), key);
        Some(answer)
    }

    /// Returns the fallback's decision that is the same for all requests, if there is one.
    fn without_store(&self, key: &[u8]) -> Option<Decision> {
        let decision = self.shared.settings.failure_policy.decision(&self.handle.policy)?;
        let kind = if decision.is_admitted() { FallbackKind::Allow } else { FallbackKind::Deny };
        self.report(EventKind::Fallback(kind), key);
        Some(decision)
    }

    /// Counts a decision of the store, and caches it if it is a denial.
    pub(crate) fn decided(&self, ticket: Ticket, key: &[u8], denial: Denial) {
        let Self { shared, handle } = self;
        shared.events.tally.decided(&denial.decision);
        if !denial.decision.is_admitted() {
            shared.denials.insert(ticket, key, &handle.policy, denial);
        }
    }

    /// Counts and reports an operation that got no decision from the store.
    pub(crate) fn report_error(&self, key: &[u8], error: &Arc<CallError>) {
        self.report(EventKind::StoreError(reported(error)), key);
    }

    /// Counts an event, and reports it to the observer.
    pub(crate) fn report(&self, kind: EventKind, key: &[u8]) {
        let Self { shared, handle } = self;
        shared.events.report(kind, handle.policy.name(), || shared.node_of(key));
    }
}

/// Returns a reservation by a decision that charged nothing.
fn uncharged(decision: Decision, cost: Cost) -> Reservation {
    /// The token of permits that no state has counted, so that a refund gives back nothing.
    struct Uncharged;
    if decision.is_admitted() {
        let receipt = Receipt::of_store(Uncharged, cost.get());
        Reservation::admitted(decision, Duration::ZERO, receipt)
    } else {
        Reservation::refused(decision)
    }
}
