//! How callers wait: for the reply to a call, and for permits.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
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
    under_way::{MAX_UNDER_WAY, Operating},
};
use crate::{client::ScriptClient, limiter::RedisLimiter, shared::Access};

/// Makes a timer on the caller's Tokio runtime, or returns an error if there is none.
fn timer<T>(make: impl FnOnce() -> T) -> Result<T, Error> {
    let unavailable = |message: &'static str| Error::new(ErrorKind::Unavailable, message);
    Runtime::try_current().map_err(|error| {
        unavailable("there is no Tokio runtime to await the answer on").with_source(error)
    })?;
    // Tokio does not say whether a runtime has timers: it panics if not.
    catch_unwind(AssertUnwindSafe(make)).map_err(|_| {
        unavailable("the Tokio runtime has no timers; build it with `enable_time` or `enable_all`")
    })
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Starts a call for one key if the circuit breaker lets it pass, and waits for its outcome, which
    /// another task sends and reports.
    ///
    /// # Errors
    ///
    /// If there is no outcome. This is reported here.
    pub(super) async fn ask<T>(
        &self,
        key: &[u8],
        access: Access,
        start: impl FnOnce(Deadline, Operating, oneshot::Sender<Outcome<T>>),
    ) -> Result<Outcome<T>, Error> {
        let Self { shared, handle } = self;
        let named = |error| named(handle.policy.name(), error);
        // First of all, so that nothing is allocated for a call that is not made.
        let may_pass = shared.breaker(key, access).may_pass(Instant::now());
        may_pass.map_err(|_| named(shared.breaker_is_open(key)))?;
        let deadline = Deadline::after(shared.settings.deadline);
        let (send, outcome) = oneshot::channel();
        let outcome = timer(|| timeout(deadline.of_caller(), outcome))?;
        let failed = match shared.under_way.begin() {
            None => {
                let message = format!("{MAX_UNDER_WAY} operations are under way already");
                CallError::new(Fault::NotSent, message)
            }
            Some(operating) => {
                start(deadline, operating, send);
                match outcome.await {
                    Ok(Ok(outcome)) => return Ok(outcome),
                    Ok(Err(_)) => CallError::new(Fault::NoReply, RUNTIME_ENDED),
                    // The task that makes the call was not scheduled.
                    Err(_) => {
                        let error = CallError::new(Fault::NoReply, BUSY);
                        shared.timed_out(key, access, deadline, &error);
                        error
                    }
                }
            }
        };
        let failed = Arc::new(failed);
        self.report_error(key, &failed);
        Err(named(failed))
    }

    /// Waits until no operation of this limiter and its handles is under way, for `within` at most: for
    /// the end of a program, so that refunds that were begun are sent.
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
    /// [`ErrorKind::Undetermined`] if operations are under way after that time, and
    /// [`ErrorKind::Unavailable`] without a Tokio runtime with timers.
    pub async fn drain(&self, within: Duration) -> Result<(), Error> {
        let under_way = &self.shared.under_way;
        timer(|| timeout(within, under_way.ended()))?.await.map_err(|_| {
            let number = under_way.number();
            let plural = if number == 1 { " is" } else { "s are" };
            let message = format!("{number} operation{plural} still under way after {within:?}");
            Error::new(ErrorKind::Undetermined, message)
        })
    }
}

const RUNTIME_ENDED: &str = "the runtime was shut down while the answer was awaited";

const BUSY: &str = "no answer within the deadline; the thread of the client's runtime is busy";

/// Returns what was reserved once it may be used.
///
/// If it is dropped before that, it refunds the permits, even if the reply was not received yet or
/// not polled.
pub(crate) async fn until_due<C: ScriptClient>(
    limiter: RedisLimiter<C>,
    reserved: Answer<Reservation>,
) -> Result<Reservation, Error> {
    timer(|| drop(sleep(Duration::ZERO)))?;
    let (send, receive) = oneshot::channel();
    limiter.shared.client.runtime().clone().spawn(async move {
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
            let (refund, shared) = (self.limiter.refund(receipt), &self.limiter.shared);
            // So that the end of a program can wait for it from here on.
            let operating = shared.under_way.begin();
            // An error is counted, and reported to the observer.
            shared.client.runtime().spawn(async move {
                drop(refund.await);
                drop(operating);
            });
        }
    }
}
