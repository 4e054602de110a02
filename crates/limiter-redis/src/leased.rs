//! Answers by leases.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{Cost, Decision, Error, LimiterFuture, Receipt, Reservation, Source};

use crate::{
    call::{
        deadline::{Deadline, timeout},
        sender::RUNTIME_ENDED,
    },
    client::{
        ScriptClient,
        faults::{CallError, Fault, named, reported},
    },
    events::EventKind,
    lease::{Answered, Awaited, Found, Grant, Leases, Permits},
    limiter::RedisLimiter,
};

impl<C: ScriptClient> RedisLimiter<C> {
    /// Checks a key by its lease, `None` if the store has to decide.
    pub(crate) fn check_leased(
        &self,
        leases: &Arc<Leases<C>>,
        key: &[u8],
        cost: Cost,
    ) -> Option<LimiterFuture<Decision>> {
        let tally = &self.context.events.tally;
        let awaited = match self.spend_lease(leases, key, cost, |decision, _| decision)? {
            Ok(decision) => {
                tally.admitted.add();
                return Some(LimiterFuture::ready(Ok(decision)));
            }
            Err(Found::Answered(answered)) => {
                return Some(LimiterFuture::ready(Ok(self.decided(&answered))));
            }
            Err(Found::Awaited { awaited, .. }) => awaited,
            Err(Found::Store) => return None,
        };
        let (limiter, key) = (self.clone(), Bytes::copy_from_slice(key));
        Some(LimiterFuture::pending(async move {
            let answered = limiter.awaited(awaited, &key, limiter.deadline()).await?;
            Ok(limiter.decided(&answered))
        }))
    }

    /// Reserves permits of a key's lease, `None` if the store has to decide: it may promise permits for later. The caller
    /// counts an admission, because a list may give the permits back.
    pub(crate) async fn reserve_leased(
        &self,
        leases: &Arc<Leases<C>>,
        key: &Bytes,
        cost: Cost,
        (within, deadline): (Duration, Deadline),
    ) -> Option<Result<Reservation, Error>> {
        let spend = |decision, grant: &Arc<Grant>| {
            Answered::Admitted(decision, Permits::Lease(Arc::clone(grant)))
        };
        let answered = match self.spend_lease(leases, key, cost, spend)? {
            Ok(answered) | Err(Found::Answered(answered)) => Ok(answered),
            Err(Found::Awaited { awaited, .. }) => self.awaited(awaited, key, deadline).await,
            Err(Found::Store) => return None,
        };
        Some(match answered {
            Ok(Answered::Admitted(decision, Permits::Store(charged))) => {
                Ok(self.charged(key.clone(), decision, charged))
            }
            Ok(Answered::Admitted(decision, Permits::Lease(grant))) => {
                let receipt = Receipt::new((self.context.id, grant), cost.get());
                Ok(Reservation::admitted(decision, Duration::ZERO, receipt))
            }
            Ok(Answered::Refused(_)) if !within.is_zero() => return None,
            Ok(refused) => Ok(Reservation::refused(self.decided(&refused))),
            Err(error) => Err(error),
        })
    }

    /// Spends permits of a lease, or joins a request for one. `None` if the store has to decide.
    fn spend_lease<T>(
        &self,
        leases: &Arc<Leases<C>>,
        key: &[u8],
        cost: Cost,
        spend: impl FnOnce(Decision, &Arc<Grant>) -> T,
    ) -> Option<Result<T, Found>> {
        let terms = self.plan.lease?;
        leases.take((&self.plan, key, terms), cost, self.context.now(), spend)
    }

    /// Returns the decision that a caller gets, and counts it.
    fn decided(&self, answered: &Answered) -> Decision {
        let tally = &self.context.events.tally;
        match answered {
            Answered::Admitted(decision, _) => {
                tally.admitted.add();
                *decision
            }
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

    /// Waits for the reply to a request for permits. Each check that fails is counted, and reported.
    async fn awaited(
        &self,
        mut awaited: Awaited,
        key: &[u8],
        deadline: Deadline,
    ) -> Result<Answered, Error> {
        let Self { sender, context, plan, .. } = self;
        let within = deadline.of_caller(Duration::ZERO, context.now());
        let failed = match timeout(&sender.client, within, &mut awaited.answer).await {
            Some(Ok(Ok(answered))) => return Ok(answered),
            Some(Ok(Err(error))) => error,
            Some(Err(_)) => Arc::new(CallError::new(Fault::NoReply, RUNTIME_ENDED)),
            None if awaited.leave() => Arc::new(CallError::new(Fault::NoReply, NO_LEASE)),
            None => Arc::new(deadline.no_time()),
        };
        sender.report(EventKind::StoreError(reported(&failed)), plan.policy.name(), key);
        Err(named(plan.policy.name(), failed))
    }
}

const NO_LEASE: &str =
    "the permits that were asked for together with those of others did not come in time";
