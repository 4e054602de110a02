//! How callers wait: for the reply to a call, and for permits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{Answer, Error, ErrorKind, Receipt, Reservation};
use tokio::{
    runtime::Handle as Runtime,
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    deadline::Deadline,
    faults::{CallError, Fault, Outcome, named},
};
use crate::{client::ScriptClient, limiter::RedisLimiter, shared::Access};

/// How much longer than the deadline a caller waits, so that the call's own time-out, which names the
/// cause, is reported first.
const GRACE: Duration = Duration::from_millis(2);

/// Returns an error if there is no Tokio runtime, whose timers the caller's wait needs.
fn needs_runtime() -> Result<(), Error> {
    Runtime::try_current().map(drop).map_err(|error| {
        let message = "there is no Tokio runtime to await the answer on";
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Starts a call for one key if the circuit breaker lets it pass, and waits for its answer, which
    /// another task sends.
    pub(super) async fn ask<T>(
        &self,
        key: &[u8],
        access: Access,
        start: impl FnOnce(Deadline, oneshot::Sender<Outcome<T>>),
    ) -> Result<T, Error> {
        needs_runtime()?;
        let Self { shared, handle } = self;
        let named = |error| named(handle.policy.name(), error);
        // First of all, so that nothing is allocated for a call that is not made.
        let may_pass = shared.breaker(key, access).may_pass(Instant::now());
        may_pass.map_err(|open| named(shared.breaker_is_open(key, open)))?;
        let deadline = Deadline::after(shared.settings.deadline);
        let (send, answer) = oneshot::channel();
        start(deadline, send);
        let error = match timeout(deadline.left().saturating_add(GRACE), answer).await {
            Ok(Ok(answer)) => return answer.map_err(named),
            Ok(Err(_)) => "the runtime was shut down while the answer was awaited",
            // The task that makes the call was not scheduled.
            Err(_) => "no answer within the deadline; the thread of the client's runtime is busy",
        };
        Err(named(Arc::new(CallError::new(Fault::NoReply, error))))
    }
}

/// Returns what was reserved once it may be used.
///
/// If it is dropped before that, it refunds the permits, even if the reply was not received yet or
/// not polled.
pub(crate) async fn until_due<C: ScriptClient>(
    limiter: RedisLimiter<C>,
    reserved: Answer<Reservation>,
) -> Result<Reservation, Error> {
    needs_runtime()?;
    let (send, receive) = oneshot::channel();
    limiter.shared.client.runtime().clone().spawn(async move {
        let reserved = reserved.await.map(|reserved| {
            let (decision, delay) = (reserved.decision(), reserved.delay());
            (decision, delay, Unused { limiter, receipt: reserved.into_receipt() })
        });
        // If the caller has left, now or before it polls the answer, this refunds the permits.
        drop(send.send(reserved));
    });
    let (decision, delay, mut unused) = receive.await.map_err(|_| {
        let message = "the runtime was shut down while the answer was awaited";
        Error::new(ErrorKind::Undetermined, message)
    })??;
    if let Some(delay) = delay {
        sleep(delay).await;
    }
    Ok(match unused.receipt.take() {
        Some(receipt) => Reservation::admitted(decision, Duration::ZERO, receipt),
        None => Reservation::refused(decision),
    })
}

/// Refunds permits that are not used yet when it is dropped.
struct Unused<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    receipt: Option<Receipt>,
}

impl<C: ScriptClient> Drop for Unused<C> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let refund = self.limiter.refund(receipt);
            // An error is counted, and reported to the observer.
            self.limiter.shared.client.runtime().spawn(async move { drop(refund.await) });
        }
    }
}
