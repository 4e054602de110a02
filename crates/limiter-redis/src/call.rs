//! One script call within a deadline.

use std::time::{Duration, Instant};

use limiter_core::{Error, ErrorKind};

use crate::{
    client::{RunError, ScriptCall, ScriptClient},
    script::Script,
};

/// Runs a script by its digest, and once by its source where the server doesn't have it, all within
/// the deadline.
pub(crate) async fn call<C: ScriptClient>(
    client: &C,
    script: &Script,
    call: ScriptCall,
    deadline: Duration,
) -> Result<Vec<i64>, Error> {
    let start = Instant::now();
    let by_source = || ScriptCall { script: script.by_source(), ..call.clone() };
    let result = match client.run(call.clone(), deadline).await {
        Err(RunError::NotCached) => match deadline.saturating_sub(start.elapsed()) {
            Duration::ZERO => Err(RunError::NotCached),
            left => client.run(by_source(), left).await,
        },
        result => result,
    };
    result.map_err(|error| match error {
        RunError::Failed(error) => error,
        RunError::NotCached => Error::new(
            ErrorKind::Unavailable,
            "the server did not have the script, and there was no time left to send it",
        ),
    })
}
