//! A server that does not have the script gets it once, in what is left of the deadline.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{ErrorKind, Policy, Quota};
use tokio::runtime::Handle;

use crate::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};

/// A client that takes a while to say that the script is not there: whatever it is called by, or until it is sent.
#[derive(Clone)]
struct Forgetful {
    runtime: Handle,
    calls: Arc<Mutex<Calls>>,
    has_sent: bool,
}

/// The first two words of each call, and for how long it was made at most.
type Calls = Vec<([Vec<u8>; 2], Duration)>;

const TAKES: Duration = Duration::from_millis(30);

impl ScriptClient for Forgetful {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let words = call.words();
        let command = [words[0].to_vec(), words[1].to_vec()];
        self.calls.lock().unwrap().push((command, within));
        tokio::time::sleep(TAKES).await;
        if self.has_sent && *words[0] == *b"EVAL" {
            let usage = [0, 0, 1, 0, 1].map(ScriptReply::Integer);
            return Ok(ScriptReply::Array(usage.to_vec()));
        }
        Err(CallError::new(Fault::NoScript, "NOSCRIPT"))
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// Returns the calls of a peek within `deadline`.
async fn calls(deadline: Duration, has_sent: bool) -> Calls {
    let client = Forgetful { runtime: Handle::current(), calls: Arc::default(), has_sent };
    let policy = Policy::gcra("test", Quota::per_second(1));
    let limiter = RedisLimiter::builder(client.clone(), policy).deadline(deadline).build().unwrap();
    match limiter.peek("key").await {
        Ok(usage) => assert!(has_sent && usage.remaining() == 1),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Undetermined));
        }
    }
    // A call outlives its caller.
    tokio::time::sleep(2 * TAKES).await;
    let calls = client.calls.lock().unwrap();
    calls.clone()
}

#[tokio::test]
async fn the_script_is_sent_once_and_in_what_is_left_of_the_deadline() {
    let deadline = Duration::from_secs(5);
    let calls = calls(deadline, false).await;
    assert_eq!(calls.len(), 2);
    assert!(calls[0].0[0] == b"EVALSHA" && calls[0].1 > deadline - TAKES);
    assert!(calls[1].0[0] == b"EVAL" && calls[1].1 <= deadline - TAKES);
}

#[tokio::test]
async fn the_script_is_not_sent_when_the_deadline_is_over() {
    assert_eq!(calls(Duration::from_millis(1), false).await.len(), 1);
}

/// The user may not be allowed to load scripts: the first failure ends it.
#[tokio::test]
async fn another_script_is_loaded_after_the_reply() {
    let calls = calls(Duration::from_secs(5), true).await;
    let words = calls.iter().map(|([one, other], _)| (&**one, &**other)).collect::<Vec<_>>();
    assert_eq!(words.len(), 3, "{words:?}");
    assert_eq!(words[2], (&b"SCRIPT"[..], &b"LOAD"[..]));
}
