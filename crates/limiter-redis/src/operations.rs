//! The operations of the core's traits.

use std::{
    any::Any,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{
    Cost, Decision, Demand, Error, JointDecision, Key, Limiter, LimiterFuture, LimiterId, Policy,
    Receipt, Reservation, Source, Timestamp, Usage, WaitingLimiter,
};
use tokio::sync::oneshot;

use crate::{
    call::{
        deadline::{Deadline, timeout},
        operation::{Forgotten, Peek, Refund, Reserve, Reserved, Reset, Token},
        sender::{RUNTIME_ENDED, Sender},
    },
    client::{
        ScriptClient,
        faults::{CallError, Fault, Outcome, named},
    },
    events::FallbackKind,
    joint,
    limiter::RedisLimiter,
    local::{
        fallback::Local,
        lease::{Answered, Found, Grant, Permits},
    },
    scripts::{Ask, Charged, CheckReply},
    waiting,
};

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.handle.policy
    }

    fn store(&self) -> &'static str {
        "redis"
    }

    fn id(&self) -> LimiterId {
        self.sender.context.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        let stored = self.sender.context.keys.with(key, |key| self.check_stored(key, cost));
        stored.unwrap_or_else(|error| LimiterFuture::ready(Err(error)))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        LimiterFuture::pending(async move {
            let key = key?;
            let usage = limiter.sender.operate(&limiter.handle, &key, Peek).await;
            usage.or_else(|error| {
                limiter.locally(&key, &error, |local| local.peek(&key)).ok_or(error)
            })
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        LimiterFuture::pending(async move {
            let key = key?;
            let spend = |decision, grant: &Arc<Grant>| {
                Answered::Admitted(decision, Permits::Lease(Arc::clone(grant)))
            };
            let leased = match limiter.spend_lease(&key, cost, limiter.sender.context.now(), spend)
            {
                Some(Ok(answered) | Err(Found::Answered(answered))) => Some(Ok(answered)),
                Some(Err(Found::Awaited { outcome, .. })) => Some(limiter.awaited(outcome).await),
                None => None,
            };
            let reserved = match leased {
                Some(Ok(Answered::Admitted(decision, permits))) => {
                    return Ok(limiter.reserved(key, cost, decision, permits));
                }
                Some(Ok(answered @ Answered::Refused(_))) if within.is_zero() => {
                    return Ok(Reservation::refused(limiter.decided(&answered)));
                }
                Some(Err(error)) => Err(error),
                // The store may promise permits for later.
                Some(Ok(Answered::Refused(_))) | None => {
                    let ticket = limiter.sender.context.denials.ticket(&key);
                    let reserve = Reserve { cost, ask: Ask::Within(within), ticket };
                    limiter.sender.operate(&limiter.handle, &key, reserve).await
                }
            };
            limiter.reservation(key, cost, Ask::Within(within), reserved)
        })
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        self.reserve_at_store(key, most, Ask::UpTo)
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        self.reserve_at_store(key, cost, Ask::InAnyCase)
    }

    fn decide_together(&self, demands: &[Demand<'_>]) -> Option<LimiterFuture<JointDecision>> {
        joint::decide::<C>(demands)
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        match receipt.token::<Arc<Token>>() {
            Some(token) if token.limiter == self.sender.context.id => {
                let (sender, token) = (Arc::clone(&self.sender), Arc::clone(token));
                let permits = receipt.permits();
                LimiterFuture::pending(async move {
                    // The handle that charged.
                    let (handle, key) = (Arc::clone(&token.handle), token.key.clone());
                    let forgotten = Forgotten::of(&sender.context, &key);
                    let refund = Refund { token, permits, forgotten };
                    sender.operate(&handle, &key, refund).await
                })
            }
            Some(_) => LimiterFuture::ready(Ok(0)),
            None if let Some((limiter, grant)) = receipt.token::<(LimiterId, Arc<Grant>)>() => {
                let is_own = *limiter == self.sender.context.id;
                let given =
                    is_own.then(|| grant.give(receipt.permits(), self.sender.context.now()));
                LimiterFuture::ready(Ok(given.unwrap_or(0)))
            }
            // The local fallback's receipt, or another limiter's.
            None => {
                let local = self.handle.local.as_ref();
                LimiterFuture::ready(Ok(local.map_or(0, |local| local.refund(receipt))))
            }
        }
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        LimiterFuture::pending(async move {
            let (key, Self { sender, handle, .. }) = (key?, &limiter);
            if let Some(local) = &handle.local {
                local.reset(&key);
            }
            let reset = Reset { forgotten: Forgotten::of(&sender.context, &key) };
            let result = sender.operate(handle, &key, reset).await;
            if let Some(leases) = &limiter.leases {
                leases.forget(&key);
            }
            result
        })
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling(self, policy)?))
    }
}

impl<C: ScriptClient> WaitingLimiter for RedisLimiter<C> {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        let reserved = Limiter::reserve(self, key, cost, within.unwrap_or(Duration::MAX));
        LimiterFuture::pending(waiting::until_due(self.clone(), reserved))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Checks the store's key of a subject.
    fn check_stored(&self, key: &[u8], cost: Cost) -> LimiterFuture<Decision> {
        let context = &self.sender.context;
        let now = context.now();
        let awaited = match self.spend_lease(key, cost, now, |decision, _| decision) {
            Some(Ok(decision)) => return LimiterFuture::ready(Ok(decision)),
            Some(Err(Found::Answered(answered))) => {
                return LimiterFuture::ready(Ok(self.decided(&answered)));
            }
            Some(Err(Found::Awaited { outcome, .. })) => Some(outcome),
            None => None,
        };
        if awaited.is_none()
            && let Some(denial) = context.denials.find(key, &self.handle.policy, cost, now)
        {
            context.events.tally.cached.add();
            return LimiterFuture::ready(Ok(denial));
        }
        let (limiter, key) = (self.clone(), key.to_vec());
        LimiterFuture::pending(async move {
            let Self { sender, handle, .. } = &limiter;
            let decided = match awaited {
                Some(outcome) => {
                    limiter.awaited(outcome).await.map(|answered| limiter.decided(&answered))
                }
                None => sender.check(handle, &key, cost, 0).await.map(|reply| reply.decision),
            };
            decided.or_else(|error| {
                let local = limiter.locally(&key, &error, |local| local.decide(&key, cost));
                local.or_else(|| limiter.without_store(&key, &error)).ok_or(error)
            })
        })
    }

    /// Spends permits of a lease, `None` if the store has to decide.
    fn spend_lease<T>(
        &self,
        key: &[u8],
        cost: Cost,
        now: Timestamp,
        spend: impl FnOnce(Decision, &Arc<Grant>) -> T,
    ) -> Option<Result<T, Found>> {
        let (leases, terms) = (self.leases.as_ref()?, self.handle.plan.lease?);
        leases.take((&self.handle, key, terms), cost, now, spend)
    }

    /// Returns the decision that a caller gets, and counts it if it is a refusal.
    fn decided(&self, answered: &Answered) -> Decision {
        let tally = &self.sender.context.events.tally;
        match answered {
            Answered::Admitted(decision, _) => *decision,
            Answered::Refused(decision) if decision.source() == Source::Cache => {
                tally.cached.add();
                *decision
            }
            Answered::Refused(decision) => {
                tally.refused.add();
                *decision
            }
        }
    }

    /// Waits for the reply to a request for permits.
    async fn awaited(
        &self,
        outcome: oneshot::Receiver<Outcome<Answered>>,
    ) -> Result<Answered, Error> {
        let Sender { client, context, .. } = &*self.sender;
        let deadline = Deadline::after(context.settings.deadline, context.now());
        let failed = match timeout(client, deadline.of_caller(), outcome).await {
            Some(Ok(Ok(answered))) => return Ok(answered),
            Some(Ok(Err(error))) => error,
            Some(Err(_)) => Arc::new(CallError::new(Fault::NoReply, RUNTIME_ENDED)),
            None => Arc::new(deadline.no_time()),
        };
        Err(named(self.handle.policy.name(), failed))
    }

    /// Returns a reservation of permits that may be used now.
    fn reserved(
        &self,
        key: Vec<u8>,
        cost: Cost,
        decision: Decision,
        permits: Permits,
    ) -> Reservation {
        match permits {
            Permits::Store(charged) => {
                self.reserved_at_store(key, cost.get(), decision, charged, None)
            }
            Permits::Lease(grant) => {
                let receipt = Receipt::new((self.sender.context.id, grant), cost.get());
                Reservation::admitted(decision, Duration::ZERO, receipt)
            }
        }
    }

    /// Charges a cost or a part of it at the store, whatever is leased, unless a cached denial shows that not
    /// even one permit fits.
    fn reserve_at_store(&self, key: &Key<'_>, cost: Cost, ask: Ask) -> LimiterFuture<Reservation> {
        let (limiter, key) = (self.clone(), self.sender.context.keys.of(key));
        LimiterFuture::pending(async move {
            let (key, Self { sender, handle, .. }) = (key?, &limiter);
            let (denials, now) = (&sender.context.denials, sender.context.now());
            if ask == Ask::UpTo
                && let Some(denial) = denials.find(&key, &handle.policy, Cost::ONE, now)
            {
                sender.context.events.tally.cached.add();
                return Ok(Reservation::refused(denial));
            }
            let reserve = Reserve { cost, ask, ticket: denials.ticket(&key) };
            let reserved = sender.operate(handle, &key, reserve).await;
            limiter.reservation(key, cost, ask, reserved)
        })
    }

    /// Returns what the store's reply means to the caller, or the fallback's decision.
    fn reservation(
        &self,
        key: Vec<u8>,
        cost: Cost,
        ask: Ask,
        reserved: Result<Reserved, Error>,
    ) -> Result<Reservation, Error> {
        let error = match reserved {
            Ok((CheckReply { decision, charged: Some(charged) }, local)) => {
                return Ok(self.reserved_at_store(
                    key,
                    charged.permits(),
                    decision,
                    charged,
                    local,
                ));
            }
            // Of a charge in any case, nothing.
            Ok((CheckReply { decision, .. }, _)) if decision.is_admitted() => {
                return Ok(Reservation::uncounted(decision, 0));
            }
            Ok((CheckReply { decision, .. }, _)) => return Ok(Reservation::refused(decision)),
            Err(error) => error,
        };
        self.fallback(&key, cost, ask, &error).ok_or(error)
    }

    /// Returns the fallback's reservation, if there is one.
    pub(crate) fn fallback(
        &self,
        key: &[u8],
        cost: Cost,
        ask: Ask,
        error: &Error,
    ) -> Option<Reservation> {
        let local = self.locally(key, error, |local| local.reserve(key, cost, ask));
        local.or_else(|| {
            let decision = self.without_store(key, error)?;
            let most = if ask == Ask::UpTo { decision.remaining() } else { u64::MAX };
            Some(uncharged(decision, cost.get().min(most)))
        })
    }

    pub(crate) fn reserved_at_store(
        &self,
        key: Vec<u8>,
        permits: u64,
        decision: Decision,
        charged: Charged,
        local: Option<Receipt>,
    ) -> Reservation {
        let delay = charged.delay();
        let (limiter, handle) = (self.sender.context.id, Arc::clone(&self.handle));
        let token = Token { limiter, key, charged, handle, local: Mutex::new(local) };
        let receipt = Receipt::new(Arc::new(token), permits);
        Reservation::admitted(decision, delay, receipt)
    }

    /// Returns the answer of the local fallback, if there is one, after the store returned `error`.
    pub(crate) fn locally<T>(
        &self,
        key: &[u8],
        error: &Error,
        ask: impl FnOnce(&Local) -> T,
    ) -> Option<T> {
        let answer = ask(self.handle.local.as_ref()?);
        self.sender.fell_back(FallbackKind::Local, error, &self.handle, key);
        Some(answer)
    }

    /// Returns the fallback's decision that is the same for all requests, if there is one.
    pub(crate) fn without_store(&self, key: &[u8], error: &Error) -> Option<Decision> {
        let decision = self.sender.context.settings.failure_policy.decision(&self.handle.policy)?;
        let kind = if decision.is_admitted() { FallbackKind::Allow } else { FallbackKind::Deny };
        self.sender.fell_back(kind, error, &self.handle, key);
        Some(decision)
    }
}

/// Returns a reservation by a decision that charged nothing.
fn uncharged(decision: Decision, permits: u64) -> Reservation {
    /// The token of permits that no state has counted, so that a refund gives back nothing.
    struct Uncharged;
    if decision.is_admitted() {
        let receipt = Receipt::new(Uncharged, permits);
        Reservation::admitted(decision, Duration::ZERO, receipt)
    } else {
        Reservation::refused(decision)
    }
}
