//! What is counted, and who is told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Decision, Error, ErrorKind, Usage};
use limiter_test::log::Log;

use crate::{
    breaker::Transition,
    counters::Counters,
    events::{Event, Events, FallbackKind},
};

#[test]
fn each_event_is_counted_and_told_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let observer = Arc::clone(&told);
    let events = Events::new("api")
        .observed_by(Arc::new(move |event| observer.lock().unwrap().push(event.name())));
    events.transition(None, false, || None);
    events.transition(Some(Transition::Opened), false, || None);
    events.transition(Some(Transition::Closed), false, || None);
    for kind in [ErrorKind::Unavailable, ErrorKind::Undetermined, ErrorKind::Unexpected] {
        events.tell(&Event::StoreError(&Error::new(kind, "it broke")));
    }
    for kind in [FallbackKind::Allow, FallbackKind::Deny, FallbackKind::Local] {
        events.tell(&Event::Fallback(kind));
    }
    let names = [
        "breaker_opened",
        "breaker_closed",
        "unavailable",
        "undetermined",
        "unexpected",
        "fallback_allow",
        "fallback_deny",
        "fallback_local",
    ];
    assert_eq!(*told.lock().unwrap(), names);
    let expected = Counters {
        breaker_opened: 1,
        breaker_closed: 1,
        unavailable: 1,
        undetermined: 1,
        unexpected: 1,
        fallback_allow: 1,
        fallback_deny: 1,
        fallback_local: 1,
        ..Counters::default()
    };
    assert_eq!(events.counters(), expected);
}

#[test]
fn decisions_are_counted_by_where_they_come_from() {
    let events = Events::new("api");
    let usage = Usage::new(1, 0, Duration::from_secs(1));
    let refusal = Decision::refused(usage, Some(Duration::from_secs(1)));
    (0..3).for_each(|_| events.tally().decided(&Decision::admitted(usage)));
    (0..2).for_each(|_| events.tally().decided(&refusal));
    events.tally().remembered();
    events.tally().not_asked();
    let expected =
        Counters { admitted: 3, refused: 2, remembered: 1, not_asked: 1, ..Counters::default() };
    assert_eq!(events.counters(), expected);
}

#[test]
fn a_transition_is_one_line_of_the_log_and_a_failed_check_is_none() {
    let log = Log::start();
    let events = Events::new("api");
    events.tell(&Event::StoreError(&Error::new(ErrorKind::Unavailable, "it broke")));
    events.tell(&Event::Fallback(FallbackKind::Allow));
    events.transition(Some(Transition::Opened), false, || None);
    events.transition(Some(Transition::Closed), false, || None);
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        assert!(line.starts_with("WARN limiter_redis::events: "), "{line}");
        assert!(line.contains(r#"policy="api""#), "{line}");
    }
}
