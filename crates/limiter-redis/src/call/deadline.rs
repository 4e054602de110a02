//! The time that an operation may take.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use limiter_core::{Clock, Timestamp};

use super::queue::let_ready_tasks_run;
use crate::client::{
    ScriptClient,
    faults::{CallError, Fault},
};

/// The longest pause before a call that was not executed is sent again.
const PAUSE: Duration = Duration::from_millis(5);

/// How much longer than the deadline a caller waits.
const GRACE: Duration = Duration::from_millis(2);

/// The time by which a call must have a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Timestamp,
    pub(super) within: Duration,
}

impl Deadline {
    /// Returns the deadline `within` from `now`.
    pub(crate) const fn after(within: Duration, now: Timestamp) -> Self {
        Self { since: now, within }
    }

    pub(crate) const fn left(self, now: Timestamp) -> Duration {
        self.within.saturating_sub(now.saturating_since(self.since))
    }

    /// Returns the error of a call to which a server has not replied in time.
    pub(crate) fn no_reply(self, server: &str) -> CallError {
        CallError::new(Fault::NoReply, format!("{server}: no reply within {:?}", self.within))
    }

    /// Returns how long the caller waits from now on: a little longer than for a call to be sent, so that the error of one that was
    /// not is returned first. Or for as long as the server may be silent.
    pub(crate) fn of_caller(self, silence: Duration, now: Timestamp) -> Duration {
        self.left(now).max(silence).saturating_add(GRACE)
    }

    /// Waits before a call that was not executed is sent once more, and returns whether enough time
    /// is left to send it.
    pub(crate) async fn pause(self, client: &impl ScriptClient, clock: &dyn Clock) -> bool {
        let pause = PAUSE.min(self.left(clock.now()) / 4);
        client.sleep(pause).await;
        self.left(clock.now()) > pause
    }

    /// Returns the error of a call that there was no time to send.
    pub(crate) fn no_time(self) -> CallError {
        let message = format!(
            "no time was left to send the call within {:?}; the client's runtime was busy, or the \
             deadline is too short",
            self.within
        );
        CallError::new(Fault::NoTime, message)
    }
}

/// Returns the output of `future`, `None` if it is not ready `within` some time.
///
/// A runtime that was busy may first poll the caller, and then the task for which it waits. So that the outcome
/// does not depend on this order, tasks that are ready run before the time-out counts.
pub(crate) async fn timeout<C: ScriptClient, F: Future>(
    client: &C,
    within: Duration,
    future: F,
) -> Option<F::Output> {
    let (mut future, mut sleep) = (pin!(future), pin!(client.sleep(within)));
    let in_time = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    });
    if let Some(output) = in_time.await {
        return Some(output);
    }
    let_ready_tasks_run().await;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
