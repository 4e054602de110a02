//! Waiting for permits: the server decides the order, and the client waits once.

use std::time::Duration;

use limiter_core::{Answer, Decision, Error, ErrorKind, Receipt, Reservation};
use tokio::{runtime::Handle, sync::oneshot, time::sleep};

use crate::{client::ScriptClient, limiter::RedisLimiter};

/// Returns what was reserved once it may be used.
///
/// Dropped before that, it gives back what was taken, also where the answer was still on its way, or
/// had come and nobody had looked at it.
pub(crate) async fn when_due<C: ScriptClient>(
    limiter: RedisLimiter<C>,
    reserved: Answer<Reservation>,
) -> Result<Reservation, Error> {
    let runtime = runtime()?;
    let (send, receive) = oneshot::channel();
    runtime.clone().spawn(async move {
        let held = reserved.await.map(|reserved| Held::new(limiter, runtime, reserved));
        // Whoever waited may be gone, now or before looking: then it is dropped, here or there.
        drop(send.send(held));
    });
    let held = receive.await.map_err(|_| shut_down())??;
    if let Some(delay) = held.delay {
        sleep(delay).await;
    }
    Ok(held.into_reservation())
}

/// Returns the runtime on which an answer is awaited.
pub(crate) fn runtime() -> Result<Handle, Error> {
    Handle::try_current().map_err(|error| {
        let message = "there is no Tokio runtime to await the answer on";
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })
}

/// Returns the error of those who wait for a runtime that has ended.
pub(crate) fn shut_down() -> Error {
    let message = "the runtime was shut down while the answer was awaited";
    Error::new(ErrorKind::Undetermined, message)
}

/// What was reserved and is not used yet. Dropped, it gives back what was taken.
struct Held<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    /// Kept, since it may be dropped where there is none.
    runtime: Handle,
    decision: Decision,
    delay: Option<Duration>,
    receipt: Option<Receipt>,
}

impl<C: ScriptClient> Held<C> {
    fn new(limiter: RedisLimiter<C>, runtime: Handle, reserved: Reservation) -> Self {
        let (decision, delay) = (reserved.decision(), reserved.delay());
        Self { limiter, runtime, decision, delay, receipt: reserved.into_receipt() }
    }

    fn into_reservation(mut self) -> Reservation {
        match self.receipt.take() {
            Some(receipt) => Reservation::admitted(self.decision, Duration::ZERO, receipt),
            None => Reservation::refused(self.decision),
        }
    }
}

impl<C: ScriptClient> Drop for Held<C> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let refund = self.limiter.refund(receipt);
            self.runtime.spawn(async move { drop(refund.await) });
        }
    }
}
