//! A server that does not have the script gets it once, in what is left of the deadline.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{ErrorKind, Policy, Quota};

use crate::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};

/// A client that takes a while to say that the script is not there.
#[derive(Clone)]
struct Forgetful {
    calls: Arc<Mutex<Calls>>,
}

/// The first two words of each call, and for how long it was made at most.
type Calls = Vec<([Vec<u8>; 2], Duration)>;

const TAKES: Duration = Duration::from_millis(30);

impl ScriptClient for Forgetful {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let words = call.args();
        let command = [words[0].to_vec(), words[1].to_vec()];
        self.calls.lock().unwrap().push((command, within));
        tokio::time::sleep(TAKES).await;
        Err(CallError::new(Fault::NoScript, "NOSCRIPT"))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }
}

/// Returns the calls of a peek within `deadline`.
async fn calls(deadline: Duration) -> Calls {
    let client = Forgetful { calls: Arc::default() };
    let policy = Policy::gcra("test", Quota::per_second(1));
    let limiter =
        RedisLimiter::builder(policy).deadline(deadline).build_on(client.clone()).unwrap();
    let error = limiter.peek("key").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Undetermined));
    // A call outlives its caller.
    tokio::time::sleep(3 * TAKES).await;
    let calls = client.calls.lock().unwrap();
    calls.clone()
}

#[tokio::test]
async fn the_script_is_sent_once_and_in_what_is_left_of_the_deadline() {
    let deadline = Duration::from_secs(5);
    let calls = calls(deadline).await;
    assert_eq!(calls.len(), 2);
    assert!(calls[0].0[0] == b"EVALSHA" && calls[0].1 > deadline - TAKES);
    assert!(calls[1].0[0] == b"EVAL" && calls[1].1 <= deadline - TAKES);
}

#[tokio::test]
async fn the_script_is_not_sent_when_the_deadline_is_over() {
    assert_eq!(calls(Duration::from_millis(1)).await.len(), 1);
}
