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
        fallback::Local,
        operation::{Check, Forgotten, Peek, Refund, Reserve, Reset, Token},
    },
    client::ScriptClient,
    events::{EventKind, FallbackKind},
    limiter::RedisLimiter,
    waiting,
};

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.handle.policy
    }

    fn store(&self) -> &'static str {
        "redis"
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> Answer<Decision> {
        let context = &self.sender.context;
        let key = match context.keys.of(key) {
            Ok(key) => key,
            Err(error) => return Answer::ready(Err(error)),
        };
        let denials = &context.denials;
        if let Some(denial) = denials.find(&key, &self.handle.policy, cost, Instant::now()) {
            context.events.tally.cached.add();
            return Answer::ready(Ok(denial));
        }
        let limiter = self.clone();
        Answer::pending(async move {
            let Self { sender, handle, .. } = &limiter;
            let check = Check { cost, ticket: sender.context.denials.ticket(&key) };
            sender.check(handle, &key, check).await.or_else(|error| {
                let local = limiter.locally(&key, |local| local.decide(&key, cost));
                local.or_else(|| limiter.without_store(&key)).ok_or(error)
            })
        })
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        Answer::pending(async move {
            let key = key?;
            let usage = limiter.sender.operate(&limiter.handle, &key, Peek).await;
            usage.or_else(|error| limiter.locally(&key, |local| local.peek(&key)).ok_or(error))
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        Answer::pending(async move {
            let (key, Self { sender, handle, .. }) = (key?, &limiter);
            let ticket = sender.context.denials.ticket(&key);
            let reserve = Reserve { cost, within, ticket };
            let (taken, local) = match sender.operate(handle, &key, reserve).await {
                Ok(reserved) => reserved,
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
            let (limiter, handle) = (sender.context.id, Arc::clone(handle));
            let token = Token { limiter, key, charged, handle, local: Mutex::new(local) };
            let receipt = Receipt::of_store(Arc::new(token), cost.get());
            Ok(Reservation::admitted(taken.decision, delay, receipt))
        })
    }

    fn refund(&self, receipt: Receipt) -> Answer<u64> {
        match receipt.token::<Arc<Token>>() {
            Some(token) if token.limiter == self.sender.context.id => {
                let (sender, token) = (Arc::clone(&self.sender), Arc::clone(token));
                let permits = receipt.permits();
                Answer::pending(async move {
                    // The handle that charged.
                    let (handle, key) = (Arc::clone(&token.handle), token.key.clone());
                    let forgotten = Forgotten::of(&sender.context, &key);
                    let refund = Refund { token, permits, forgotten };
                    sender.operate(&handle, &key, refund).await
                })
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
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        Answer::pending(async move {
            let (key, Self { sender, handle, .. }) = (key?, &limiter);
            if let Some(local) = &handle.local {
                local.reset(&key);
            }
            let reset = Reset { forgotten: Forgotten::of(&sender.context, &key) };
            sender.operate(handle, &key, reset).await
        })
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C: ScriptClient> WaitingLimiter for RedisLimiter<C> {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation> {
        let reserved = Limiter::reserve(self, key, cost, within.unwrap_or(Duration::MAX));
        Answer::pending(waiting::until_due(self.clone(), reserved))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Returns the answer of the local fallback, if there is one.
    fn locally<T>(&self, key: &[u8], ask: impl FnOnce(&Local) -> T) -> Option<T> {
        let answer = ask(self.handle.local.as_ref()?);
        self.report(FallbackKind::Local, key);
        Some(answer)
    }

    /// Returns the fallback's decision that is the same for all requests, if there is one.
    fn without_store(&self, key: &[u8]) -> Option<Decision> {
        let decision = self.sender.context.settings.failure_policy.decision(&self.handle.policy)?;
        let kind = if decision.is_admitted() { FallbackKind::Allow } else { FallbackKind::Deny };
        self.report(kind, key);
        Some(decision)
    }

    fn report(&self, kind: FallbackKind, key: &[u8]) {
        self.sender.report(EventKind::Fallback(kind), &self.handle, key);
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
