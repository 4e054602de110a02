//! Models of what threads share before the store, whose every interleaving is tried.

use std::time::Duration;

use breaker::{Breaker, Settings};
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

use crate::events::Transition;

#[path = "../call/breaker.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "once more, with the checker's atomics")]
mod breaker;
#[path = "../local/denials.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "once more, with the checker's lock")]
mod denials;
mod sync {
    pub(crate) use loom::sync::{
        Mutex, MutexGuard, RwLock,
        atomic::{AtomicU64, Ordering},
    };
}

const OPEN: Duration = Duration::from_millis(100);

/// A breaker that opens at the first failure.
fn breaker() -> Arc<Breaker> {
    let deadline = Duration::from_millis(50);
    Arc::new(Breaker::new(Settings { failures: 1, open: OPEN, deadline }))
}

#[test]
fn of_several_failures_one_opens_the_breaker() {
    model(|| {
        let now = Timestamp::from_nanos(7);
        let breaker = breaker();
        let fail =
            move |breaker: &Breaker| breaker.pass(now).ok().and_then(|pass| pass.failed(now));
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || fail(&breaker)
        });
        let opened = [fail(&breaker), other.join().unwrap()];
        assert_eq!(opened.iter().flatten().collect::<Vec<_>>(), [&Transition::Opened]);
        assert!(breaker.may_pass(now.saturating_add(OPEN - Duration::from_nanos(1))).is_err());
        assert!(breaker.may_pass(now.saturating_add(OPEN)).is_ok());
    });
}

#[test]
fn one_of_several_becomes_the_probe() {
    model(|| {
        let start = Timestamp::from_nanos(7);
        let breaker = breaker();
        assert!(breaker.pass(start).unwrap().failed(start).is_some());
        let now = start.saturating_add(OPEN);
        // A forgotten pass stays under way.
        let probe = move |breaker: &Breaker| breaker.pass(now).map(std::mem::forget).is_ok();
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || probe(&breaker)
        });
        let here = probe(&breaker);
        assert_ne!(here, other.join().unwrap());
    });
}

#[test]
fn cancelled_probes_never_wedge_the_breaker() {
    model(|| {
        let start = Timestamp::from_nanos(7);
        let breaker = breaker();
        assert!(breaker.pass(start).unwrap().failed(start).is_some());
        let now = start.saturating_add(OPEN);
        let other = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || drop(breaker.pass(now))
        });
        drop(breaker.pass(now));
        other.join().unwrap();
        assert_eq!(breaker.pass(now).unwrap().succeeded(), Some(Transition::Closed));
    });
}

#[test]
fn late_results_race_with_a_probe_in_vain() {
    model(|| {
        let start = Timestamp::from_nanos(7);
        let breaker = breaker();
        let now = start.saturating_add(OPEN);
        let late = breaker.pass(start).unwrap();
        assert!(breaker.pass(start).unwrap().failed(start).is_some());
        // What is late can't be moved to a thread, since it borrows; the probe can.
        let probe = thread::spawn({
            let breaker = Arc::clone(&breaker);
            move || breaker.pass(now).unwrap().succeeded()
        });
        assert_eq!(late.failed(now), None);
        assert_eq!(probe.join().unwrap(), Some(Transition::Closed));
        assert!(breaker.pass(now).is_ok());
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
            denials.insert(ticket, &"key".into(), &policy, denial);
        }
        refund.join().unwrap();
        assert_eq!(denials.find(b"key", &policy, Cost::ONE, now, |_| None), None);
    });
}
