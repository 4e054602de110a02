//! One script call within a deadline.

use std::time::{Duration, Instant};

use limiter_core::{Error, ErrorKind};
use tokio::time::sleep;

use crate::{
    client::{RunError, ScriptCall, ScriptClient, ScriptReply},
    script::Script,
};

/// How long to wait before a call that was not executed is sent again, at most.
const PAUSE: Duration = Duration::from_millis(5);

/// Until when a call has to have an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) since: Instant,
    pub(crate) within: Duration,
}

impl Deadline {
    pub(crate) fn left(self) -> Duration {
        self.within.saturating_sub(self.since.elapsed())
    }

    /// Waits a moment before what was not executed is sent once more, and returns whether there is
    /// time left to do so.
    pub(crate) async fn pause(self) -> bool {
        let pause = PAUSE.min(self.left() / 4);
        sleep(pause).await;
        self.left() > pause
    }
}

/// Runs a script, once more where the server has said that it executed nothing, all within the
/// deadline.
///
/// A server that fails over, loads its data or moves a slot needs a moment, and most often no more.
pub(crate) async fn call<C: ScriptClient>(
    client: &C,
    script: &Script,
    mut call: ScriptCall,
    deadline: Deadline,
) -> Result<ScriptReply, Error> {
    let mut result = run(client, script, &mut call, deadline).await;
    let was_not_executed = |error: &Error| error.kind() == ErrorKind::Unavailable;
    if matches!(&result, Err(RunError::Failed(error)) if was_not_executed(error))
        && deadline.pause().await
    {
        result = run(client, script, &mut call, deadline).await;
    }
    result.map_err(reason)
}

/// Runs a script by its digest, and once by its source where the server doesn't have it.
pub(crate) async fn run<C: ScriptClient>(
    client: &C,
    script: &Script,
    call: &mut ScriptCall,
    deadline: Deadline,
) -> Result<ScriptReply, RunError> {
    for name in [script.by_digest(), script.by_source()] {
        let left = deadline.left();
        if left.is_zero() {
            break;
        }
        call.script = name;
        match client.run(call, left).await {
            Err(RunError::NotCached) => {}
            result => return result,
        }
    }
    Err(RunError::NotCached)
}

/// Returns what a caller is told.
pub(crate) fn reason(error: RunError) -> Error {
    match error {
        RunError::Failed(error) => error,
        RunError::NotCached => Error::new(
            ErrorKind::Unavailable,
            "the server did not have the script, and there was no time left to send it",
        ),
    }
}
