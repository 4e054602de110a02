//! What is counted, reported and logged.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use limiter_core::{Decision, Error, ErrorKind, SystemClock, Usage};
use tokio::runtime::Builder;
use tracing::{
    Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

use self::log::Log;
use crate::{
    client::{
        breaker::Change,
        circuit_breaker::Watch,
        faults::{CallError, Fault, reported},
    },
    counters::Counters,
    events::{Event, EventKind, Events, ObserverQueue},
    outage_log::OutageLog,
};

/// That of `limiter-rig`, on which these tests do not depend.
#[path = "../../../limiter-rig/src/log.rs"]
#[expect(unreachable_pub, reason = "it is public there")]
pub(super) mod log;

const NODE: &str = "10.0.0.1:6379";

fn node() -> Option<Arc<str>> {
    Some(NODE.into())
}

fn broken(more: &str) -> CallError {
    CallError::new(Fault::NoReply, format!("it broke{more}"))
}

#[test]
fn each_event_is_counted_and_reported_once_with_policy_and_node() {
    let (send, seen) = mpsc::channel();
    let observer = move |event: &Event| {
        let (policy, node) = (event.policy().to_owned(), event.node().map(str::to_owned));
        send.send((event.name(), policy, node)).unwrap();
    };
    let runtime = Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let spawn = Box::new(move |task| drop(handle.spawn_blocking(task)));
    let queue = ObserverQueue::new(Arc::new(observer), spawn);
    let events = Events::new("api", Some(queue), Arc::new(SystemClock::new()));
    events.breaker(Change::Opened, node().as_ref(), Some(&broken("")));
    events.breaker(Change::Closed, node().as_ref(), None);
    for kind in [ErrorKind::Unavailable, ErrorKind::Undetermined, ErrorKind::Unexpected] {
        let error = Error::new(kind, "it broke");
        events.report(EventKind::StoreError(error), "premium", node());
    }
    let error = Error::new(ErrorKind::Undetermined, "it broke");
    events.report(EventKind::RefundFailed(error), "premium", node());
    events.report(EventKind::DecidedLocally, "premium", None);
    let expected = [
        ("breaker_opened", "api", true),
        ("breaker_closed", "api", true),
        ("unavailable", "premium", true),
        ("undetermined", "premium", true),
        ("unexpected", "premium", true),
        ("refund_failed", "premium", true),
        ("decided_locally", "premium", false),
    ];
    let expected = expected.map(|(name, policy, has_node)| {
        (name, policy.to_owned(), has_node.then(|| NODE.to_owned()))
    });
    for event in expected {
        assert_eq!(seen.recv().unwrap(), event);
    }
    let expected = Counters {
        breaker_opened: 1,
        breaker_closed: 1,
        unavailable: 1,
        undetermined: 1,
        unexpected: 1,
        refunds_failed: 1,
        decided_locally: 1,
        ..Counters::default()
    };
    assert_eq!(events.tally.read(), expected);
}

#[test]
fn the_guide_names_each_event() {
    let guide = include_str!("../../docs/guide/failure.md");
    // Each is in a pair with its counter.
    let pairs = include_str!("../events.rs").lines().filter(|line| line.contains("\", |tally| &"));
    let names: Vec<_> = pairs.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(guide.contains(&format!("`{name}`")), "no {name} in docs/guide/failure.md");
    }
}

#[test]
fn decisions_are_counted_by_their_source() {
    let events = Events::new("api", None, Arc::new(SystemClock::new()));
    let usage = Usage::new(1, 0, Duration::from_secs(1));
    let refusal = Decision::refused(usage, Some(Duration::from_secs(1)));
    (0..3).for_each(|_| events.tally.decided(&Decision::admitted(usage)));
    (0..2).for_each(|_| events.tally.decided(&refusal));
    events.tally.cached.add();
    events.tally.short_circuited.add();
    let expected =
        Counters { admitted: 3, refused: 2, cached: 1, short_circuited: 1, ..Counters::default() };
    assert_eq!(events.tally.read(), expected);
}

#[test]
fn an_outage_is_a_warning_with_its_cause_and_its_end_is_information() {
    let log = Log::start();
    let events = Events::new("api", None, Arc::new(SystemClock::new()));
    events.report(EventKind::DecidedLocally, "api", None);
    for _ in 0..100 {
        events.breaker(Change::Opened, node().as_ref(), Some(&broken("")));
        events.breaker(Change::StaysOpen, node().as_ref(), Some(&broken(" again")));
        events.breaker(Change::Closed, node().as_ref(), None);
    }
    // Another breaker is logged by itself.
    let other = format!("{NODE}0").into();
    events.breaker(Change::Opened, Some(&other), Some(&broken("")));
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, begin) in lines.iter().zip([
        "WARN limiter_redis::outage_log: no decision by the store, so requests get errors, or are decided without it: it broke",
        "INFO limiter_redis::outage_log: the store decides again",
        "WARN limiter_redis::outage_log: no decision by the store, so requests get errors, or are decided without it: it broke",
    ]) {
        assert!(line.starts_with(begin), "{line}");
        assert!(line.contains(r#"policy="api""#) && line.contains(NODE), "{line}");
    }
}

/// A subscriber that sends log lines elsewhere, within a limit, asks the limiter that logs.
#[test]
fn a_subscriber_may_ask_the_limiter_that_logs() {
    struct Asking(Arc<OutageLog>);

    impl Subscriber for Asking {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.begins((None, None), "api", &"it broke");
            self.0.ends("api", || None);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        let outages = Arc::new(OutageLog::new(Arc::new(SystemClock::new())));
        let asking = Asking(Arc::clone(&outages));
        tracing::subscriber::with_default(asking, || {
            outages.begins((None, None), "api", &"it broke");
            outages.ends("api", || None);
        });
        let _ = done.send(());
    });
    assert_eq!(outcome.recv_timeout(Duration::from_secs(10)), Ok(()));
}

/// While the circuit breaker is open, calls are not sent. That follows from the cause that was logged.
#[test]
fn what_follows_from_an_outage_is_not_logged() {
    let log = Log::start();
    let outages = OutageLog::new(Arc::new(SystemClock::new()));
    let begins = |fault, node| outages.begins((node, Some(fault)), "api", &"it broke");
    begins(Fault::NoReply, node());
    begins(Fault::NotSent, node());
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
    // That is another outage.
    begins(Fault::NotSent, None);
    assert_eq!(log.lines().len(), 2, "{:?}", log.lines());
}

/// A check whose node was not known failed, and then a node decides.
#[test]
fn an_outage_of_a_node_that_was_not_known_ends() {
    let log = Log::start();
    let outages = OutageLog::new(Arc::new(SystemClock::new()));
    outages.begins((None, None), "api", &"it broke");
    outages.ends("api", node);
    let lines = log.lines();
    assert!(lines.len() == 2 && lines[1].starts_with("INFO "), "{lines:?}");
}

#[test]
fn each_cause_is_logged_once() {
    let log = Log::start();
    let events = Events::new("api", None, Arc::new(SystemClock::new()));
    let report = |error, node| events.report(EventKind::StoreError(error), "api", node);
    let call = |fault| reported(&Arc::new(CallError::new(fault, "it broke")));
    let replied = |reply: &str| reported(&Arc::new(CallError::from_error_reply("Redis", reply)));
    let causes = || {
        let faults = [Fault::NotSent, Fault::NoTime, Fault::NoReply, Fault::InvalidReply];
        let replies = ["OOM why", "WRONGTYPE why", "READONLY why"];
        let not_sent = Error::new(ErrorKind::Unavailable, "there is no runtime");
        faults.map(call).into_iter().chain(replies.map(replied)).chain([not_sent])
    };
    for _ in 0..3 {
        causes().for_each(|error| report(error, node()));
    }
    let lines = log.lines();
    assert_eq!(lines.len(), causes().count(), "{lines:?}");
    let expected = "WARN limiter_redis::outage_log: no decision by the store, so requests get errors, or are decided \
                    without it: it broke policy=\"api\" node=\"10.0.0.1:6379\"";
    assert_eq!(lines[0], expected);
    // Another node decides.
    events.replied("api", || None);
    assert_eq!(log.lines().len(), lines.len());
    for _ in 0..2 {
        events.replied("api", node);
    }
    assert_eq!(log.lines().len(), lines.len() + 1);
    let end = "INFO limiter_redis::outage_log: the store decides again policy=\"api\" node=\"10.0.0.1:6379\"";
    assert_eq!(log.lines().last().unwrap(), end);
    // Within ten seconds, no cause is logged again.
    causes().for_each(|error| report(error, node()));
    assert_eq!(log.lines().len(), lines.len() + 1);
    // Other words of the server are the same cause, so that no number of them fills the memory or the log.
    for number in 0..1_000 {
        let reply = format!("ERR{number} why");
        report(replied(&reply), None);
    }
    assert_eq!(log.lines().len(), lines.len() + 2);
}
