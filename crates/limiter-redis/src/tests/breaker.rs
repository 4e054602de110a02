//! When a server is asked, and when it is left alone.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use futures::FutureExt as _;
use limiter_core::{ErrorKind, Policy, Quota, Timestamp};

use super::{
    client::Fate,
    store::{Store, unique},
};
use crate::{
    CallError, CircuitBreaker, Fault,
    client::{
        breaker::{Breaker, Change},
        circuit_breaker::Watch,
    },
};

const SILENCE: Duration = Duration::from_millis(250);
const PROBE_EVERY: Duration = Breaker::PROBE_EVERY;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn breaker() -> (Breaker, Timestamp) {
    (Breaker::new(SILENCE), Timestamp::from_nanos(7))
}

/// A breaker that has just opened.
fn open_breaker() -> (Breaker, Timestamp) {
    let (breaker, now) = breaker();
    let pass = breaker.pass(now).unwrap();
    let opened = now.saturating_add(SILENCE);
    assert_eq!(breaker.failed(pass, opened), Some(Change::Opened));
    (breaker, opened)
}

fn fail(breaker: &Breaker, now: Timestamp) -> Option<Change> {
    breaker.failed(breaker.pass(now).unwrap(), now)
}

#[test]
fn calls_that_fail_for_the_time_of_silence_open_it() {
    let (breaker, start) = breaker();
    for millis in (0..250).step_by(5) {
        assert_eq!(fail(&breaker, start.saturating_add(ms(millis))), None, "{millis} ms");
    }
    assert_eq!(fail(&breaker, start.saturating_add(SILENCE)), Some(Change::Opened));
}

#[test]
fn a_reply_to_any_call_is_no_silence() {
    let (breaker, start) = breaker();
    // However many calls fail before it, and however long ago they were sent.
    let early: Vec<_> = (0..500).map(|_| breaker.pass(start).unwrap()).collect();
    assert_eq!(fail(&breaker, start), None);
    assert_eq!(breaker.replied(), None);
    let late = start.saturating_add(10 * SILENCE);
    for pass in early {
        assert_eq!(breaker.failed(pass, late), None);
    }
    // Those that failed before the reply do not count any more.
    assert_eq!(fail(&breaker, late), None);
    assert_eq!(fail(&breaker, late.saturating_add(SILENCE)), Some(Change::Opened));
}

#[test]
fn while_it_is_open_one_call_each_100_ms_is_a_probe() {
    let (breaker, opened) = open_breaker();
    let mut probes = 0;
    for millis in 0..1_000 {
        let now = opened.saturating_add(ms(millis));
        assert_eq!(breaker.refuses(now), millis % 100 != 0 || millis == 0, "{millis}");
        // Some end, others never do.
        if let Some(pass) = breaker.pass(now) {
            probes += 1;
            if probes % 2 == 0 {
                assert_eq!(breaker.failed(pass, now), Some(Change::StaysOpen));
            }
        }
    }
    assert_eq!(probes, 9);
}

#[test]
fn the_first_reply_closes_it() {
    let (breaker, opened) = open_breaker();
    let now = opened.saturating_add(PROBE_EVERY);
    let probe = breaker.pass(now).unwrap();
    assert_eq!(breaker.replied(), Some(Change::Closed));
    assert_eq!(breaker.replied(), None);
    assert!(!breaker.refuses(now));
    // The probe was sent before the reply came.
    assert_eq!(breaker.failed(probe, now.saturating_add(SILENCE)), None);
    // Nothing is held against it.
    assert_eq!(fail(&breaker, now.saturating_add(SILENCE)), None);
}

#[test]
fn it_continues_after_decades_and_millions_of_changes() {
    let (breaker, mut now) = breaker();
    for _ in 0..600_000 {
        let pass = breaker.pass(now).unwrap();
        now = now.saturating_add(SILENCE);
        assert_eq!(breaker.failed(pass, now), Some(Change::Opened));
        assert!(breaker.pass(now).is_none());
        assert_eq!(breaker.replied(), Some(Change::Closed));
    }
    let pass = breaker.pass(now).unwrap();
    now = now.saturating_add(Duration::from_secs(100 * 366 * 86_400));
    assert_eq!(breaker.failed(pass, now), Some(Change::Opened));
}

/// Counts the changes that it learns of.
#[derive(Default)]
struct Watcher(Mutex<Vec<Change>>);

impl Watch for Watcher {
    fn breaker(&self, change: Change, _: Option<&Arc<str>>, _: Option<&CallError>) {
        self.0.lock().unwrap().push(change);
    }

    fn forgets(&self, _: &Arc<str>) {}
}

#[test]
fn all_that_watch_it_learn_of_each_change_while_they_exist() {
    let store = Store::new();
    let breaker = CircuitBreaker::new(SILENCE, store.client.clock()).unwrap();
    let watchers: Vec<_> = (0..20).map(|_| Arc::new(Watcher::default())).collect();
    for watcher in &watchers {
        let watcher: Weak<dyn Watch> = Arc::<Watcher>::downgrade(watcher);
        breaker.watch(&watcher);
        for _ in 0..100 {
            let gone: Weak<dyn Watch> = Arc::downgrade(&(Arc::new(Watcher::default()) as _));
            breaker.watch(&gone);
        }
    }
    let pass = breaker.pass(None, false).unwrap();
    store.pass(SILENCE);
    breaker.note(&pass, Some(&CallError::new(Fault::NoReply, "why")));
    let refused = breaker.refuses(|| None).unwrap();
    assert_eq!(refused.to_string(), "Redis failed recently and is not called: why");
    breaker.note(&pass, None);
    assert!(breaker.refuses(|| None).is_none());
    for watcher in watchers {
        assert_eq!(*watcher.0.lock().unwrap(), [Change::Opened, Change::Closed]);
    }
}

#[test]
fn what_counts_is_in_the_table_of_faults() {
    for (fault, opens) in [
        (Fault::NoReply, true),
        (Fault::NotSent, true),
        (Fault::InvalidReply, true),
        (Fault::NoTime, false),
        (Fault::NoScript, false),
        (Fault::NotExecuted, false),
        (Fault::NotPrimary, false),
        (Fault::Redirected, false),
        (Fault::CrossSlot, false),
        (Fault::ErrorReply, false),
    ] {
        let store = Store::new();
        let breaker = CircuitBreaker::new(SILENCE, store.client.clock()).unwrap();
        let pass = breaker.pass(None, false).unwrap();
        store.pass(SILENCE);
        breaker.note(&pass, Some(&CallError::new(fault, "why")));
        // One call that waited long for a connection does not open it.
        if fault == Fault::NotSent {
            assert!(breaker.refuses(|| None).is_none());
            store.pass(SILENCE);
            breaker.note(&pass, Some(&CallError::new(fault, "why")));
        }
        assert_eq!(breaker.refuses(|| None).is_some(), opens, "{fault:?}");
    }
}

#[test]
fn a_time_of_silence_out_of_range_is_refused() {
    let clock = || Store::new().client.clock();
    for (silence, shown) in [(ms(9), "9ms"), (ms(10_001), "10.001s")] {
        let error = CircuitBreaker::new(silence, clock()).unwrap_err();
        let message = format!("invalid silence of {shown}: use 10ms to 10s");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidSetting, message));
    }
    assert!(CircuitBreaker::new(ms(10), clock()).is_ok());
}

fn policy() -> Policy {
    Policy::gcra("test", Quota::per_second(1_000))
}

/// The connection's breaker waited for a caller's deadline, so that a server which replies after 10 ms was not called by
/// any limiter.
#[test]
fn a_limiter_with_a_short_deadline_opens_nothing_for_another_one() {
    let store = Store::new();
    let limiter = |deadline| {
        let with = |builder: crate::Builder| builder.deadline(deadline).denial_cache(0);
        store.limiter_with(&unique(), &policy(), with)
    };
    let (hasty, patient) = (limiter(ms(5)), limiter(ms(500)));
    store.client.set_fate(|_| Fate::Late(ms(10)));
    for _ in 0..200 {
        let error = store.settle(hasty.check("key")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undetermined);
    }
    assert!(store.settle(patient.check("key")).unwrap().is_admitted());
    let counters = hasty.counters();
    assert_eq!((counters.breaker_opened, counters.short_circuited), (0, 0), "{counters:?}");
    assert_eq!((counters.undetermined, counters.admitted, counters.refused), (200, 0, 0));
}

#[test]
fn twenty_limiters_on_one_client_probe_once() {
    let store = Store::new();
    let limiters: Vec<_> = (0..20)
        .map(|_| store.limiter_with(&unique(), &policy(), |it| it.deadline(ms(50))))
        .collect();
    store.client.set_fate(|_| Fate::LostRequest);
    assert!(store.settle(limiters[0].check("key")).is_err());
    store.pass(SILENCE);
    store.client.sent();
    for _ in 0..10 {
        for limiter in &limiters {
            assert!(store.settle(limiter.check("key")).is_err());
        }
    }
    let opened = |limiter: &crate::RedisLimiter<_>| limiter.counters().breaker_opened;
    assert!(limiters.iter().all(|limiter| opened(limiter) == 1));
    // Each probe takes the deadline, in which the others wait for nothing.
    let probes = store.client.sent().len();
    assert!(probes <= 6, "{probes}");
    store.client.set_fate(|_| Fate::Served);
    store.pass(PROBE_EVERY);
    assert!(store.settle(limiters[19].check("key")).unwrap().is_admitted());
    assert!(store.settle(limiters[0].check("key")).unwrap().is_admitted());
}

/// Callers that waited in vain while the client's runtime was busy were taken for a silence of the server.
#[test]
fn a_busy_runtime_is_no_silence_of_the_server() {
    let store = Store::new();
    let limiter = store.limiter_with(&unique(), &policy(), |it| it.deadline(ms(50)));
    let in_flight = limiter.in_flight("uploads", 3).unwrap();
    for _ in 0..10 {
        let (mut check, mut enter) = (limiter.check("key"), in_flight.enter("key"));
        let polls = [(&mut check).now_or_never().is_none(), (&mut enter).now_or_never().is_none()];
        assert_eq!(polls, [true; 2]);
        // Nothing runs the client's tasks.
        store.client.pass(ms(60));
        let errors = [store.poll(check).unwrap_err(), store.poll(enter).unwrap_err()];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("runtime was busy"), "{error}");
        }
    }
    let counters = limiter.counters();
    assert_eq!((counters.breaker_opened, counters.unavailable, counters.undetermined), (0, 10, 0));
    assert!(store.block_on(limiter.check("key")).unwrap().is_admitted());
    assert!(store.block_on(in_flight.enter("key")).unwrap().is_admitted());
}
