//! Waiting for permits: the server decides the order, and the client waits once.

use std::time::Duration;

use limiter_core::{Answer, Error, ErrorKind, Receipt, Reservation};
use tokio::{sync::oneshot, time::sleep};

use crate::{client::ScriptClient, limiter::RedisLimiter};

/// Returns what was reserved once it may be used.
///
/// Dropped before that, it gives back what was taken, also where the answer was still on its way.
pub(crate) async fn when_due<C: ScriptClient>(
    limiter: RedisLimiter<C>,
    reserved: Answer<Reservation>,
) -> Result<Reservation, Error> {
    let (send, receive) = oneshot::channel();
    let asked = limiter.clone();
    tokio::spawn(async move {
        // Whoever waited is gone.
        if let Err(Ok(unwanted)) = send.send(reserved.await)
            && let Some(receipt) = Reservation::into_receipt(unwanted)
        {
            drop(asked.refund(receipt).await);
        }
    });
    let reservation = receive.await.map_err(|_| {
        Error::new(
            ErrorKind::Undetermined,
            "the runtime was shut down while the answer was awaited",
        )
    })??;
    let (decision, Some(delay)) = (reservation.decision(), reservation.delay()) else {
        return Ok(reservation);
    };
    let mut held = Held { limiter, receipt: reservation.into_receipt() };
    sleep(delay).await;
    Ok(match held.receipt.take() {
        Some(receipt) => Reservation::admitted(decision, Duration::ZERO, receipt),
        None => Reservation::refused(decision),
    })
}

/// Permits that are not used yet. Dropped with them, it gives them back.
struct Held<C: ScriptClient> {
    limiter: RedisLimiter<C>,
    receipt: Option<Receipt>,
}

impl<C: ScriptClient> Drop for Held<C> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let refund = self.limiter.refund(receipt);
            runtime.spawn(async move { drop(refund.await) });
        }
    }
}
