//! Operations on one key: reservations, peeks, refunds and resets.
//!
//! Each runs in a task that outlives its caller, so that the connection, the circuit breaker and the
//! cached denials see its outcome.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{Cost, Error, Receipt, Usage};
use tokio::sync::oneshot;

use super::{
    batch::invalid_reply,
    deadline::{Deadline, run},
    denials::{Denial, Denials},
    faults::{CallError, named},
    wait,
};
use crate::{
    client::{ScriptCall, ScriptClient},
    events::EventKind,
    handle::Handle,
    receipts::Token,
    scripts::{Call, Taken},
    shared::{Access, Shared},
};

type Outcome<T> = Result<T, Arc<CallError>>;

impl<C: ScriptClient> Shared<C> {
    /// Charges `cost` now or up to `within` later, and returns the receipt that the local fallback
    /// gave for the same charge.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &[u8],
        cost: Cost,
        within: Duration,
    ) -> Result<(Taken, Option<Receipt>), Error> {
        let (shared, of, key_of_call) = (Arc::clone(self), Arc::clone(handle), key.to_vec());
        self.in_task(handle, (key, Access::Write), async move |deadline| {
            let (ticket, sent) = (shared.denials.ticket(&key_of_call), Instant::now());
            let call = of.plan.take(cost, within);
            let read = |numbers: &[i64]| of.plan.taken(numbers, cost);
            let at = (key_of_call.as_slice(), Access::Write);
            let taken = shared.call(&of, at, call, deadline, read).await?;
            let decision = taken.decision;
            let (key, policy, received) = (&key_of_call, &of.policy, Instant::now());
            shared.decided(ticket, &Denial { key, policy, cost, decision, sent, received });
            let local = taken.charged.as_ref().and_then(|_| shared.follow_locally(&of, key, cost));
            Ok((taken, local))
        })
        .await
    }

    pub(crate) async fn peek(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &[u8],
    ) -> Result<Usage, Error> {
        let (shared, of, key_of_call) = (Arc::clone(self), Arc::clone(handle), key.to_vec());
        self.in_task(handle, (key, Access::Read), async move |deadline| {
            let read = |numbers: &[i64]| of.plan.peeked(numbers);
            let at = (key_of_call.as_slice(), Access::Read);
            shared.call(&of, at, of.plan.peek(), deadline, read).await
        })
        .await
    }

    /// Gives back `permits` of the charge that the receipt's token names, and returns how many came
    /// back.
    pub(crate) async fn refund(self: &Arc<Self>, receipt: Receipt) -> Result<u64, Error> {
        let Some(token) = receipt.token::<Token>() else { return Ok(0) };
        let (handle, key) = (Arc::clone(&token.handle), token.key.clone());
        let (shared, permits) = (Arc::clone(self), receipt.permits());
        let result = self
            .in_task(&handle, (&key, Access::Write), async move |deadline| {
                let Some(token) = receipt.token::<Token>() else { return Ok(0) };
                if let (Some(local), Some(own)) = (&shared.local, token.take_local(permits)) {
                    local.refund(own);
                }
                let _forgotten = Forgotten { denials: &shared.denials, key: &token.key };
                let plan = &token.handle.plan;
                let call = plan.refund(&token.charged, permits);
                let at = (token.key.as_slice(), Access::Write);
                let read = |numbers: &[i64]| plan.refunded(numbers);
                shared.call(&token.handle, at, call, deadline, read).await
            })
            .await;
        if let Err(error) = &result {
            let policy = handle.policy.name();
            self.events.report(EventKind::RefundFailed(error), policy, || self.node_of(&key));
        }
        result
    }

    pub(crate) async fn reset(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &[u8],
    ) -> Result<(), Error> {
        let (shared, of, key_of_call) = (Arc::clone(self), Arc::clone(handle), key.to_vec());
        self.in_task(handle, (key, Access::Write), async move |deadline| {
            let _forgotten = Forgotten { denials: &shared.denials, key: &key_of_call };
            let at = (key_of_call.as_slice(), Access::Write);
            let read = |numbers: &[i64]| numbers.first().map(drop);
            shared.call(&of, at, of.plan.reset(), deadline, read).await
        })
        .await
    }

    /// Runs a call in a task of its own, and waits for its outcome.
    async fn in_task<T: Send + 'static, F: Future<Output = Outcome<T>> + Send + 'static>(
        &self,
        handle: &Handle,
        (key, access): (&[u8], Access),
        call: impl FnOnce(Deadline) -> F,
    ) -> Result<T, Error> {
        wait::needs_runtime()?;
        let name = handle.policy.name();
        self.may_call(key, access).map_err(|error| named(name, error))?;
        let deadline = self.deadline();
        let (send, outcome) = oneshot::channel();
        let call = call(deadline);
        drop(self.client.runtime().spawn(async move { drop(send.send(call.await)) }));
        let outcome = wait::answered(outcome, deadline).await;
        outcome.and_then(|outcome| outcome).map_err(|error| named(name, error))
    }

    /// Calls a script for one key, and returns what `read` makes of its reply.
    async fn call<T>(
        &self,
        handle: &Handle,
        (key, access): (&[u8], Access),
        call: Call<'_>,
        deadline: Deadline,
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Outcome<T> {
        let pass = self.breaker(key, access).pass(Instant::now());
        let pass = pass.map_err(|open| self.breaker_is_open(key, open))?;
        let script = call.script;
        let mut call = ScriptCall::of(call, vec![key.to_vec()]);
        call.read_only = access == Access::Read;
        let result = run(&self.client, script, &mut call, deadline).await;
        let result = result.and_then(|reply| {
            let value = reply.integers().and_then(|numbers| read(&numbers));
            value.ok_or_else(|| invalid_reply(&reply))
        });
        self.note(pass, (key, access), result.as_ref().err());
        if let Err(error) = &result {
            self.report_error(handle, key, error);
        }
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
