//! A server that does not have the script gets it once, in what is left of the deadline.

use std::time::Duration;

use limiter_core::{ErrorKind, Policy, Quota};

use super::{
    client::{Fate, Sent},
    store::{Store, unique},
};

const TAKES: Duration = Duration::from_millis(30);

/// Returns the calls of a peek within `deadline`, to a server without scripts that takes a while for each, and whether
/// the peek failed.
fn calls(deadline: Duration) -> (Vec<Sent>, Option<ErrorKind>) {
    let store = Store::new();
    let policy = Policy::gcra("test", Quota::per_second(1));
    let limiter = store.limiter_with(&unique(), &policy, |builder| builder.deadline(deadline));
    store.client.execute(&["SCRIPT", "FLUSH"]);
    store.client.set_fate(|_| Fate::Late(TAKES));
    let peek = store.start(limiter.peek("key"));
    for _ in 0..2 {
        store.pass(TAKES);
    }
    let failed = peek.take().expect("an answer").err().map(|error| error.kind());
    (store.client.sent(), failed)
}

#[test]
fn the_script_is_sent_once_and_in_what_is_left_of_the_deadline() {
    let deadline = Duration::from_secs(5);
    let (calls, failed) = calls(deadline);
    let calls: Vec<_> = calls.iter().map(|sent| (sent.command.as_str(), sent.within)).collect();
    assert_eq!(calls, [("EVALSHA", deadline), ("EVAL", deadline - TAKES)]);
    assert_eq!(failed, None);
}

#[test]
fn the_script_is_not_sent_when_the_deadline_is_over() {
    let (calls, failed) = calls(Duration::from_millis(1));
    assert_eq!(calls.len(), 1);
    assert_eq!(failed, Some(ErrorKind::Unavailable));
}
