//! One script call within its deadline.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::faults::{CallError, Fault};
use crate::client::{Form, ScriptCall, ScriptClient, ScriptReply};

/// The longest pause before a call that was not executed is sent again.
const PAUSE: Duration = Duration::from_millis(5);

/// How much longer than the deadline a caller waits.
const GRACE: Duration = Duration::from_millis(2);

/// The time by which a call must have a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Instant,
    within: Duration,
}

impl Deadline {
    /// Returns the deadline `within` from now.
    pub(crate) fn after(within: Duration) -> Self {
        Self { since: Instant::now(), within }
    }

    pub(crate) fn left(self) -> Duration {
        self.within.saturating_sub(self.since.elapsed())
    }

    /// Returns when the call was made.
    pub(crate) const fn since(self) -> Instant {
        self.since
    }

    /// Returns how long the caller waits: longer than the call's own time-out, which names the cause and
    /// is reported first.
    pub(crate) fn of_caller(self) -> Duration {
        self.left().saturating_add(GRACE)
    }

    /// Returns whether a caller that does not wait any more has reported its own time-out.
    pub(crate) fn caller_timed_out(self) -> bool {
        self.since.elapsed() > self.within.saturating_add(GRACE)
    }

    /// Waits before a call that was not executed is sent once more, and returns whether enough time
    /// is left to send it.
    pub(crate) async fn pause(self) -> bool {
        let pause = PAUSE.min(self.left() / 4);
        sleep(pause).await;
        self.left() > pause
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

/// Runs a script by its digest, and by its source if the server does not have it.
pub(crate) async fn run<C: ScriptClient>(
    client: &C,
    call: &mut ScriptCall,
    deadline: Deadline,
) -> Result<ScriptReply, CallError> {
    let mut last = None;
    for form in [Form::Evalsha, Form::Eval] {
        let left = deadline.left();
        if left.is_zero() {
            return Err(deadline.no_time());
        }
        call.form = form;
        match client.run(call, left).await {
            Err(error) if error.fault() == Fault::NoScript => last = Some(error),
            Err(error) => return Err(error.in_script(&call.script)),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(|| deadline.no_time()))
}
