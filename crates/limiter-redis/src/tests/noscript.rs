//! A server that does not have the script gets it once, in what is left of the deadline.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{ErrorKind, Policy, Quota};
use tokio::runtime::Handle;

use crate::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};

/// A client that takes a while to say that the script is not there, whatever it is called by.
#[derive(Clone)]
struct Forgetful {
    runtime: Handle,
    calls: Arc<Mutex<Calls>>,
}

/// By which command the script was called, and for how long at most.
type Calls = Vec<(Vec<u8>, Duration)>;

const TAKES: Duration = Duration::from_millis(30);

impl ScriptClient for Forgetful {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        self.calls.lock().unwrap().push((call.words()[0].to_vec(), within));
        tokio::time::sleep(TAKES).await;
        Err(CallError::new(Fault::NoScript, "NOSCRIPT"))
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// Returns the calls of the script within `deadline`.
async fn calls(deadline: Duration) -> Calls {
    let client = Forgetful { runtime: Handle::current(), calls: Arc::default() };
    let policy = Policy::gcra("test", Quota::per_second(1));
    let limiter = RedisLimiter::builder(client.clone(), policy).deadline(deadline).build().unwrap();
    let error = limiter.peek("key").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Undetermined));
    // A call outlives its caller.
    tokio::time::sleep(2 * TAKES).await;
    let calls = client.calls.lock().unwrap();
    calls.clone()
}

#[tokio::test]
async fn the_script_is_sent_once_and_in_what_is_left_of_the_deadline() {
    let deadline = Duration::from_secs(5);
    let calls = calls(deadline).await;
    assert_eq!(calls.len(), 2);
    assert!(calls[0].0 == b"EVALSHA" && calls[0].1 > deadline - TAKES);
    assert!(calls[1].0 == b"EVAL" && calls[1].1 <= deadline - TAKES);
}

#[tokio::test]
async fn the_script_is_not_sent_when_the_deadline_is_over() {
    assert_eq!(calls(Duration::from_millis(1)).await.len(), 1);
}
