//! The operations of the core's traits.

use std::{any::Any, iter, sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{
    Cost, Decision, Demand, Error, ErrorKind, JointDecision, Key, Limiter, LimiterFuture,
    LimiterId, Policy, Receipt, Reservation, Store, Usage, WaitingLimiter,
};

use crate::{
    call::{
        check::Check,
        deadline::Deadline,
        list::{Ask, Decide, Part},
        operation::Operation,
        refund::{Refund, Reset, Token},
        reply::{Charged, CheckReply},
    },
    client::{ScriptClient, faults::named, slot},
    joint,
    lease::Grant,
    limiter::RedisLimiter,
    scripts::list,
    waiting,
};

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> &Policy {
        &self.plan.policy
    }

    fn store(&self) -> &'static str {
        "redis"
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        let checked = self.context.keys.with(key, |key| {
            if let Some(leases) = &self.leases
                && let Some(leased) = self.check_leased(leases, key, cost)
            {
                return leased;
            }
            if let Some(denial) = self.cached_denial(key, cost) {
                return LimiterFuture::ready(Ok(denial));
            }
            let (limiter, key) = (self.clone(), Bytes::copy_from_slice(key));
            LimiterFuture::pending(async move {
                let Self { sender, context, plan, .. } = &limiter;
                let check = Check::new(context, plan, key.clone(), (cost, 0));
                let (queue, policy) = (&sender.line.checks, plan.policy.name());
                let checked = sender.operate_with_others(queue, policy, check).await;
                let CheckReply { decision, .. } = checked.map_err(|error| named(policy, error))?;
                if decision.is_admitted() {
                    limiter.outdates_leases(&key);
                }
                Ok(decision)
            })
        });
        checked.unwrap_or_else(|error| LimiterFuture::ready(Err(error)))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        let (limiter, key) = (self.clone(), self.context.keys.of(key));
        LimiterFuture::pending(async move {
            let peeked = limiter.decide(key?, Cost::ONE, Ask::Peek, limiter.deadline()).await?;
            Ok(peeked.decision.usage())
        })
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        let (limiter, key) = (self.clone(), self.context.keys.of(key));
        LimiterFuture::pending(async move {
            let (key, deadline) = (key?, limiter.deadline());
            if let Some(leases) = &limiter.leases
                && let Some(leased) =
                    limiter.reserve_leased(leases, &key, cost, (within, deadline)).await
            {
                if leased.as_ref().is_ok_and(Reservation::is_admitted) {
                    limiter.context.events.tally.admitted.add();
                }
                return leased;
            }
            limiter.reserve_stored(key, cost, Ask::Within(within), deadline).await
        })
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        let (limiter, key) = (self.clone(), self.context.keys.of(key));
        LimiterFuture::pending(async move {
            let key = key?;
            match limiter.cached_denial(&key, Cost::ONE) {
                Some(denial) => Ok(Reservation::refused(denial)),
                None => limiter.reserve_stored(key, most, Ask::UpTo, limiter.deadline()).await,
            }
        })
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        let (limiter, key) = (self.clone(), self.context.keys.of(key));
        LimiterFuture::pending(async move {
            limiter.reserve_stored(key?, cost, Ask::InAnyCase, limiter.deadline()).await
        })
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        let id = self.context.id;
        if let Some(token) = receipt.token::<Arc<Token>>() {
            if token.limiter != id {
                return LimiterFuture::ready(Ok(0));
            }
            let context = Arc::clone(&self.context);
            let refund = Refund { context, token: Arc::clone(token), permits: receipt.permits() };
            // Of the handle that charged.
            let limiter = Self { plan: Arc::clone(&token.plan), ..self.clone() };
            return LimiterFuture::pending(async move { limiter.operate(refund).await });
        }
        if let Some((limiter, grant)) = receipt.token::<(LimiterId, Arc<Grant>)>() {
            let now = self.context.now();
            let returned = if *limiter == id { grant.give(receipt.permits(), now) } else { 0 };
            return LimiterFuture::ready(Ok(returned));
        }
        LimiterFuture::ready(Ok(0))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let (limiter, key) = (self.clone(), self.context.keys.of(key));
        LimiterFuture::pending(async move {
            let (key, Self { context, leases, .. }) = (key?, limiter.clone());
            let events = Arc::clone(&context.events);
            // The hash, and the lists of all logs that a policy of the limiter has had.
            let lists = context.plans.lists();
            let lists = lists.iter().map(|identity| list(&key, identity));
            let keys = iter::once(key.clone()).chain(lists).collect();
            let forgotten = key.clone();
            let ends = move || {
                context.denials.forget(&forgotten);
                leases.iter().for_each(|leases| leases.forget(&forgotten));
            };
            limiter.operate(Reset { events, key, keys, ends }).await
        })
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::with_policy(self, policy)?))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(Self::sibling(self, policy)?))
    }
}

impl<C: ScriptClient> Store for RedisLimiter<C> {
    fn id(&self) -> LimiterId {
        self.context.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn shard(&self, key: &Key<'_>) -> u64 {
        match self.sender.may_span_slots() {
            true => 0,
            false => self.context.keys.with(key, slot).unwrap_or_default().into(),
        }
    }

    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        joint::decide::<C>(demands, is_part)
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
    /// Returns a cached denial of `cost`, and counts it.
    pub(crate) fn cached_denial(&self, key: &[u8], cost: Cost) -> Option<Decision> {
        let context = &self.context;
        let denial = context.denied(&self.plan, key, cost, context.now())?;
        context.events.tally.cached.add();
        Some(denial)
    }

    /// Returns the deadline of what begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.context.settings.deadline, self.context.now())
    }

    /// Sends an operation under this policy, and returns its output.
    pub(crate) async fn operate<O: Operation>(&self, operation: O) -> Result<O::Output, Error> {
        let policy = self.plan.policy.name();
        self.sender.operate(policy, operation).await.map_err(|error| named(policy, error))
    }

    /// Notes that a key was charged without its leases.
    fn outdates_leases(&self, key: &[u8]) {
        if let Some(leases) = &self.leases {
            leases.outdates(&self.plan, key);
        }
    }

    /// Charges a cost or a part of it at the store, whatever is leased.
    async fn reserve_stored(
        &self,
        key: Bytes,
        cost: Cost,
        ask: Ask,
        deadline: Deadline,
    ) -> Result<Reservation, Error> {
        Ok(self.reserved(key.clone(), self.decide(key, cost, ask, deadline).await?))
    }

    /// Returns the store's reply to one demand.
    async fn decide(
        &self,
        key: Bytes,
        cost: Cost,
        ask: Ask,
        deadline: Deadline,
    ) -> Result<CheckReply, Error> {
        let first = Part::new(&self.context, &self.plan, key, cost);
        let parts = vec![first.clone()];
        let replies = self.operate(Decide { first, parts, ask, deadline }).await?;
        let no_reply = || Error::new(ErrorKind::Unexpected, "the store replied to no demand");
        replies.into_iter().next().ok_or_else(no_reply)
    }

    /// Returns what the store's reply to a demand means to its caller.
    pub(crate) fn reserved(&self, key: Bytes, reply: CheckReply) -> Reservation {
        let CheckReply { decision, charged, .. } = reply;
        match charged {
            Some(charged) => {
                self.outdates_leases(&key);
                self.charged(key, decision, charged)
            }
            // A demand that only asks, and of a charge in any case, nothing.
            None if decision.is_admitted() => Reservation::uncounted(decision, 0),
            None => Reservation::refused(decision),
        }
    }

    /// Returns a reservation of permits that the store has charged.
    pub(crate) fn charged(&self, key: Bytes, decision: Decision, charged: Charged) -> Reservation {
        let (permits, delay) = (charged.permits, charged.delay);
        let (limiter, plan) = (self.context.id, Arc::clone(&self.plan));
        let token = Token { limiter, key, charged, plan };
        Reservation::admitted(decision, delay, Receipt::new(Arc::new(token), permits))
    }
}
