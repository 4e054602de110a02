//! What waits: callers until permits are due, and the end of a program for what is under way.

use std::time::Duration;

use limiter_core::{Error, ErrorKind, LimiterFuture, Receipt, Reservation};
use tokio::sync::oneshot;

use crate::{call::sender::RUNTIME_ENDED, client::ScriptClient, limiter::RedisLimiter};

impl<C: ScriptClient> RedisLimiter<C> {
    /// Gives leases back, and waits until no operation of this limiter and its handles is under way, for
    /// `within` at most: for the end of a program, so that refunds that were begun are sent.
    ///
    /// ```no_run
    /// # async fn example(limiter: limiter_redis::RedisLimiter) {
    /// use std::time::Duration;
    ///
    /// if let Err(error) = limiter.drain(Duration::from_secs(1)).await {
    ///     eprintln!("{error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Undetermined`] if operations are under way after that time.
    pub async fn drain(&self, within: Duration) -> Result<(), Error> {
        if let Some(leases) = &self.leases {
            leases.give_back();
        }
        self.sender.ended(within).await
    }

    /// Refunds permits for which no caller waits.
    pub(crate) fn give_back(&self, receipt: Receipt) {
        let (mut refund, sender) = (self.refund(receipt), &self.sender);
        if refund.take_ready().is_some() {
            return;
        }
        // So that the end of a program can wait for it from here on.
        let operating = sender.under_way.begin();
        // An error is counted, and reported to the observer.
        sender.client.spawn(async move {
            drop(refund.await);
            drop(operating);
        });
    }
}

/// Returns what was reserved once it may be used.
///
/// If it is dropped before that, it refunds the permits, even if the reply was not received yet or
/// not polled.
pub(crate) async fn until_due<C: ScriptClient>(
    limiter: RedisLimiter<C>,
    reserved: LimiterFuture<Reservation>,
) -> Result<Reservation, Error> {
    let (send, receive) = oneshot::channel();
    let client = limiter.sender.client.clone();
    client.spawn(async move {
        let reserved = reserved.await.map(|reserved| {
            let (decision, delay) = (reserved.decision(), reserved.delay());
            (decision, delay, Unused { limiter, receipt: reserved.into_receipt() })
        });
        // If the caller has left, now or before it polls the answer, this refunds the permits.
        drop(send.send(reserved));
    });
    let (decision, delay, mut unused) =
        receive.await.map_err(|_| Error::new(ErrorKind::Undetermined, RUNTIME_ENDED))??;
    if let Some(delay) = delay {
        client.sleep(delay).await;
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
            self.limiter.give_back(receipt);
        }
    }
}
