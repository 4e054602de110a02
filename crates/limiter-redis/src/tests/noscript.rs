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

/// Each of many calls sent the source.
#[test]
fn of_many_callers_one_sends_the_script() {
    let store = Store::on_cluster();
    let policy = Policy::gcra("test", Quota::per_second(1));
    let seconds = |seconds| Duration::from_secs(seconds);
    let limiter = store.limiter_with(&unique(), &policy, |builder| builder.deadline(seconds(5)));
    store.client.set_up(|server| {
        server.execute(&["SCRIPT", "FLUSH"], 0);
    });
    store.client.set_fate(|_| Fate::Late(TAKES));
    let checks: Vec<_> = (0..50).map(|_| store.start(limiter.check("alice"))).collect();
    for _ in 0..3 {
        store.pass(TAKES);
    }
    let admitted = checks.iter().filter(|check| check.take().unwrap().unwrap().is_admitted());
    assert_eq!(admitted.count(), 1);
    let calls = store.client.sent();
    assert_eq!(calls.iter().filter(|sent| sent.command == "EVAL").count(), 1);
    assert_eq!(calls.len(), 50 + 1 + 49);
}
