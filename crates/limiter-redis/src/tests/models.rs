//! Models of what threads share before the store, whose every interleaving is tried.

use std::time::Duration;

use breaker::{Breaker, Change, Pass};
use denials::{Denial, Denials};
use limiter_core::{Cost, Decision, Policy, Quota, Timestamp, Usage};
use loom::{
    model,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

#[path = "../client/breaker.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "once more, with the checker's atomics")]
mod breaker;
#[path = "../denials.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "once more, with the checker's lock")]
mod denials;
mod sync {
    pub(crate) use loom::sync::{
        Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    };
}

const SILENCE: Duration = Duration::from_millis(250);

/// A breaker, and when a call that was sent has been without a reply for so long that it opens.
fn breaker() -> (Arc<Breaker>, Pass, Timestamp) {
    let start = Timestamp::from_nanos(7);
    let breaker = Arc::new(Breaker::new(SILENCE));
    let pass = breaker.pass(start).unwrap();
    (breaker, pass, start.saturating_add(SILENCE))
}

#[test]
fn of_several_failures_one_opens_the_breaker() {
    model(|| {
        let (breaker, pass, now) = breaker();
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || breaker.failed(pass, now)
        });
        let changes = [breaker.failed(pass, now), other.join().unwrap()];
        let opened = changes.iter().filter(|change| **change == Some(Change::Opened));
        assert_eq!(opened.count(), 1);
        assert!(
            breaker.refuses(now.saturating_add(Breaker::PROBE_EVERY - Duration::from_nanos(1)))
        );
        assert!(!breaker.refuses(now.saturating_add(Breaker::PROBE_EVERY)));
    });
}

#[test]
fn one_of_several_becomes_the_probe() {
    model(|| {
        let (breaker, pass, opened) = breaker();
        let _ = breaker.failed(pass, opened);
        let now = opened.saturating_add(Breaker::PROBE_EVERY);
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || breaker.pass(now).is_some()
        });
        let here = breaker.pass(now).is_some();
        assert_ne!(here, other.join().unwrap());
    });
}

/// Whatever the order, the breaker is as open as the changes say, and the next reply closes it.
#[test]
fn a_reply_races_with_a_failure() {
    model(|| {
        let (breaker, pass, now) = breaker();
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || breaker.replied()
        });
        let failed = breaker.failed(pass, now);
        let replied = other.join().unwrap();
        assert!(matches!(failed, None | Some(Change::Opened)));
        let is_open = failed.is_some() && replied.is_none();
        assert_eq!(breaker.refuses(now), is_open);
        assert_eq!(breaker.replied(), is_open.then_some(Change::Closed));
        assert!(!breaker.refuses(now));
    });
}

#[test]
fn of_several_replies_one_closes_the_breaker() {
    model(|| {
        let (breaker, pass, now) = breaker();
        let _ = breaker.failed(pass, now);
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || breaker.replied()
        });
        let changes = [breaker.replied(), other.join().unwrap()];
        assert_eq!(changes.iter().flatten().collect::<Vec<_>>(), [&Change::Closed]);
        assert!(breaker.pass(now).is_some());
    });
}

#[test]
fn a_refusal_from_before_a_refund_is_never_remembered() {
    model(|| {
        let now = Timestamp::from_nanos(7);
        let policy = Policy::gcra("test", Quota::per_second(1));
        // One line, whatever the seed of the hash.
        let denials = Arc::new(Denials::new(1, foldhash::quality::SeedableRandomState::default()));
        let refunded = Arc::new(AtomicBool::new(false));
        let refund = thread::spawn({
            let (denials, refunded) = (Arc::clone(&denials), Arc::clone(&refunded));
            move || {
                refunded.store(true, Ordering::SeqCst);
                denials.forget(b"key");
            }
        });
        let ticket = denials.ticket(b"key");
        if !refunded.load(Ordering::SeqCst) {
            let usage = Usage::new(1, 0, Duration::from_secs(1));
            let decision = Decision::refused(usage, Some(Duration::from_secs(1)));
            let denial = Denial { cost: Cost::ONE, decision, sent: now, received: now };
            denials.insert(Denials::MAX_AGE, ticket, (&"key".into(), &policy), denial);
        }
        refund.join().unwrap();
        assert_eq!(denials.find(b"key", &policy, Cost::ONE, now, |_| None), None);
    });
}
