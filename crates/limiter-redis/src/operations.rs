//! The operations of the core's traits.

use std::{sync::Arc, time::Duration, time::Instant};

use limiter_core::{
    Answer, Cost, Decision, Error, Key, Limiter, Policy, Receipt, Reservation, Usage,
    WaitingLimiter,
};

use crate::{
    call::{
        fallback::{Local, LocalHandle},
        wait,
    },
    client::ScriptClient,
    events::{EventKind, FallbackKind},
    limiter::RedisLimiter,
    receipts::Token,
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
            self.shared.events.tally().cached();
            return Answer::ready(Ok(denial));
        }
        let limiter = self.clone();
        Answer::pending(async move {
            let Self { shared, handle } = &limiter;
            match shared.check(handle, &key, cost).await {
                Ok(decision) => Ok(decision),
                Err(error) => limiter
                    .locally(&key, |local, own| local.decide(own, &key, cost))
                    .or_else(|| shared.decision_without_store(handle, &key))
                    .ok_or(error),
            }
        })
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            match limiter.shared.peek(&limiter.handle, &key).await {
                Ok(usage) => Ok(usage),
                Err(error) => {
                    limiter.locally(&key, |local, own| local.peek(own, &key)).ok_or(error)
                }
            }
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            let Self { shared, handle } = &limiter;
            let (taken, local) = match shared.reserve(handle, &key, cost, within).await {
                Ok(taken) => taken,
                Err(error) => {
                    return limiter
                        .locally(&key, |local, own| local.reserve(own, &key, cost, within))
                        .or_else(|| {
                            let decision = shared.decision_without_store(handle, &key)?;
                            Some(uncharged(decision, cost))
                        })
                        .ok_or(error);
                }
            };
            let Some(charged) = taken.charged else {
                return Ok(Reservation::refused(taken.decision));
            };
            let delay = charged.delay();
            let token = Token::new(shared.id, key, charged, Arc::clone(handle), local);
            Ok(Reservation::admitted(taken.decision, delay, token.into_receipt(cost)))
        })
    }

    fn refund(&self, receipt: Receipt) -> Answer<u64> {
        let shared = Arc::clone(&self.shared);
        match receipt.token::<Token>() {
            Some(token) if token.limiter == shared.id => {
                Answer::pending(async move { shared.refund(receipt).await })
            }
            Some(_) => Answer::ready(Ok(0)),
            // The local fallback's receipt, or another limiter's.
            None => {
                let local = shared.local.as_ref();
                Answer::ready(Ok(local.map_or(0, |local| local.refund(receipt))))
            }
        }
    }

    fn reset(&self, key: &Key<'_>) -> Answer<()> {
        let (limiter, key) = (self.clone(), self.shared.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            if let Some(local) = &limiter.shared.local {
                local.reset(&key);
            }
            limiter.shared.reset(&limiter.handle, &key).await
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
    fn locally<T>(&self, key: &[u8], ask: impl FnOnce(&Local, &LocalHandle) -> T) -> Option<T> {
        let answer = ask(self.shared.local.as_ref()?, self.handle.local.as_ref()?);
        let kind = EventKind::Fallback(FallbackKind::Local);
        let policy = self.handle.policy.name();
        self.shared.events.report(kind, policy, || self.shared.node_of(key));
        Some(answer)
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
