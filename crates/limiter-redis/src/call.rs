//! One script call within a deadline.

use std::time::{Duration, Instant};

use limiter_core::{Error, ErrorKind};
use tokio::time::sleep;

use crate::{
    client::{RunError, ScriptCall, ScriptClient},
    script::Script,
};

/// How long to wait before a call that was not executed is sent again, at most.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a script, once more where the server has said that it executed nothing, all within the
/// deadline.
///
/// A server that fails over, loads its data or moves a slot needs a moment, and most often no more.
pub(crate) async fn call<C: ScriptClient>(
    client: &C,
    script: &Script,
    call: ScriptCall,
    deadline: Duration,
) -> Result<Vec<i64>, Error> {
    let start = Instant::now();
    let left = || deadline.saturating_sub(start.elapsed());
    let mut result = run(client, script, &call, left).await;
    if matches!(&result, Err(RunError::Failed(error)) if error.kind() == ErrorKind::Unavailable) {
        let pause = PAUSE.min(left() / 4);
        sleep(pause).await;
        if left() > pause {
            result = run(client, script, &call, left).await;
        }
    }
    result.map_err(|error| match error {
        RunError::Failed(error) => error,
        RunError::NotCached => Error::new(
            ErrorKind::Unavailable,
            "the server did not have the script, and there was no time left to send it",
        ),
    })
}

/// Runs a script by its digest, and once by its source where the server doesn't have it.
async fn run<C: ScriptClient>(
    client: &C,
    script: &Script,
    call: &ScriptCall,
    left: impl Fn() -> Duration,
) -> Result<Vec<i64>, RunError> {
    match client.run(call.clone(), left()).await {
        Err(RunError::NotCached) => match left() {
            Duration::ZERO => Err(RunError::NotCached),
            left => {
                let by_source = ScriptCall { script: script.by_source(), ..call.clone() };
                client.run(by_source, left).await
            }
        },
        result => result,
    }
}
