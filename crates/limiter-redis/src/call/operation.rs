//! Operations on one key: reservations, peeks, refunds and resets.
//!
//! Each runs in a task that outlives its caller, so that the connection, the circuit breaker and the
//! cached denials see its outcome.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use limiter_core::{Cost, Error, Receipt, Usage};

use super::{
    batch::read_reply,
    deadline::{Deadline, run},
    denials::{Denial, Denials},
    faults::{Outcome, copied, named, reported},
};
use crate::{
    client::{ScriptCall, ScriptClient},
    events::EventKind,
    handle::Handle,
    limiter::RedisLimiter,
    scripts::{Charged, CheckReply},
    shared::Access,
};

/// A call for one key, and by when it must have a reply.
struct Operation<C> {
    limiter: RedisLimiter<C>,
    key: Vec<u8>,
    access: Access,
    deadline: Deadline,
}

/// The token of a receipt: what was charged to which key.
pub(crate) struct Token {
    /// The limiter that issued the receipt.
    pub(crate) limiter: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) charged: Charged,
    /// The handle that charged, because a charge's marks are in units of its quota.
    pub(crate) handle: Arc<Handle>,
    /// The local fallback's receipt for the same charge.
    pub(crate) local: Mutex<Option<Receipt>>,
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Charges `cost` now or up to `within` later, and returns the receipt that the local fallback
    /// gave for the same charge.
    pub(crate) async fn send_reserve(
        &self,
        key: &[u8],
        cost: Cost,
        within: Duration,
    ) -> Result<(CheckReply, Option<Receipt>), Error> {
        let outcome = self.in_task(key, Access::Write, async move |operation: Operation<C>| {
            let Operation { limiter, key, .. } = &operation;
            let Self { shared, handle } = limiter;
            let (ticket, sent) = (shared.denials.ticket(key), Instant::now());
            let call = handle.plan.take(cost, within);
            let taken = operation.call(call, |reply| handle.plan.taken(reply, cost)).await?;
            let (decision, received) = (taken.decision, Instant::now());
            limiter.decided(ticket, key, Denial { cost, decision, sent, received });
            let follow = |_| handle.local.as_ref()?.follow(key, cost);
            let local = taken.charged.as_ref().and_then(follow);
            Ok((taken, local))
        });
        self.answer(outcome.await?)
    }

    pub(crate) async fn send_peek(&self, key: &[u8]) -> Result<Usage, Error> {
        let outcome = self.in_task(key, Access::Read, async move |operation: Operation<C>| {
            let plan = &operation.limiter.handle.plan;
            operation.call(plan.peek(), |reply| plan.peeked(reply)).await
        });
        self.answer(outcome.await?)
    }

    /// Gives back `permits` of a charge through this handle, and returns how many came back.
    pub(crate) async fn send_refund(&self, token: Arc<Token>, permits: u64) -> Result<u64, Error> {
        let of_task = Arc::clone(&token);
        let refund = async move |operation: Operation<C>| {
            let Operation { limiter: Self { shared, handle }, key, .. } = &operation;
            let local = of_task.local.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(local), Some(receipt)) = (&handle.local, local) {
                let kept = receipt.permits().saturating_sub(permits);
                local.refund(receipt.keep(kept));
            }
            let _forgotten = Forgotten { denials: &shared.denials, key };
            let call = handle.plan.refund(&of_task.charged, permits);
            let refunded = operation.call(call, |reply| handle.plan.refunded(reply)).await;
            if let Err(error) = &refunded {
                operation.limiter.report(EventKind::RefundFailed(reported(error)), key);
            }
            refunded
        };
        let outcome = self.in_task(&token.key, Access::Write, refund).await;
        if let Err(error) = &outcome {
            self.report(EventKind::RefundFailed(copied(error)), &token.key);
        }
        self.answer(outcome?)
    }

    pub(crate) async fn send_reset(&self, key: &[u8]) -> Result<(), Error> {
        let outcome = self.in_task(key, Access::Write, async move |operation: Operation<C>| {
            let Operation { limiter: Self { shared, handle }, key, .. } = &operation;
            let _forgotten = Forgotten { denials: &shared.denials, key };
            operation.call(handle.plan.reset(), |reply| reply.first().map(drop)).await
        });
        self.answer(outcome.await?)
    }

    /// Runs an operation in a task of its own, reports if it fails, and waits for its outcome.
    async fn in_task<T: Send + 'static, F: Future<Output = Outcome<T>> + Send + 'static>(
        &self,
        key: &[u8],
        access: Access,
        run: impl FnOnce(Operation<C>) -> F,
    ) -> Result<Outcome<T>, Error> {
        self.ask(key, access, |deadline, operating, answer| {
            let (limiter, key) = (self.clone(), key.to_vec());
            let run =
                run(Operation { limiter: limiter.clone(), key: key.clone(), access, deadline });
            drop(self.shared.client.runtime().spawn(async move {
                let outcome = run.await;
                if let Err(error) = &outcome
                    && !(answer.is_closed() && deadline.caller_timed_out())
                {
                    limiter.report_error(&key, error);
                }
                drop(answer.send(outcome));
                drop(operating);
            }));
        })
        .await
    }

    /// Returns an outcome to its caller.
    pub(super) fn answer<T>(&self, outcome: Outcome<T>) -> Result<T, Error> {
        outcome.map_err(|error| named(self.handle.policy.name(), error))
    }
}

impl<C: ScriptClient> Operation<C> {
    /// Calls a script, and returns what `read` makes of its reply.
    async fn call<T>(
        &self,
        mut call: ScriptCall,
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Outcome<T> {
        let Self { limiter, key, access, deadline } = self;
        let shared = &limiter.shared;
        let pass = shared.breaker(key, *access).pass(Instant::now());
        let pass = pass.map_err(|_| shared.breaker_is_open(key))?;
        call.keys.push(key.clone());
        let result = run(&shared.client, &mut call, *deadline).await;
        let result = result.and_then(|reply| {
            let (value, failed) = read_reply(&reply, key, read)?;
            if let Some(failed) = failed {
                shared.expiry_was_not_restored(failed);
            }
            Ok(value)
        });
        shared.note(pass, (key, *access), result.as_ref().err());
        result.map_err(Arc::new)
    }
}

/// Removes the cached denials of a key when a refund or a reset has ended, whatever its outcome:
/// permits may have come back.
struct Forgotten<'a> {
    denials: &'a Denials,
    key: &'a [u8],
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.denials.forget(self.key);
    }
}
