//! Many threads on one key.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use limiter_core::{Clock, Cost, ManualClock, MemoryLimiter, Policy, Quota, Timestamp};

const THREADS: usize = 16;
const ROUNDS: u64 = 1_000;
const LIMIT: usize = 100;

/// Returns how often each of [`ROUNDS`] keys was admitted, by threads that start together on each.
/// Each thread takes turns with the handles for `policies`.
fn admitted(policies: &[&str]) -> Vec<usize> {
    let policies: Vec<_> =
        policies.iter().map(|text| Policy::parse("test", text).unwrap()).collect();
    let limiter =
        MemoryLimiter::builder(policies.first().unwrap().clone()).clock(ManualClock::new());
    let limiter = limiter.build().unwrap();
    let handles: Vec<_> =
        policies.iter().map(|policy| limiter.with_policy(policy).unwrap()).collect();
    let admitted: Vec<_> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let together = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (round, admitted) in (0..ROUNDS).zip(&admitted) {
                    together.wait();
                    for handle in handles.iter().cycle().take(2 * LIMIT / THREADS) {
                        if handle.check_n(round, Cost::ONE).is_admitted() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    admitted.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn threads_take_exactly_the_limit() {
    for policy in ["100/h", "100/h by fixed-window", "100/h by sliding-log"] {
        assert!(admitted(&[policy]).iter().all(|&admitted| admitted == LIMIT), "{policy}");
    }
}

#[test]
fn threads_that_take_up_to_a_number_take_exactly_the_limit() {
    for policy in ["100/h", "100/h by fixed-window", "100/h by sliding-log"] {
        let policy = Policy::parse("test", policy).unwrap();
        let limiter = MemoryLimiter::builder(policy.clone()).clock(ManualClock::new());
        let limiter = limiter.build().unwrap();
        let together = Barrier::new(THREADS);
        let charged: Vec<_> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
        let take = |thread: usize| {
            for (round, charged) in (0..ROUNDS).zip(&charged) {
                together.wait();
                for most in [7, 1, 4] {
                    let taken = limiter.take_up_to(round, Cost::of(most));
                    let permits = usize::try_from(taken.permits()).unwrap();
                    // Each thread gives back one permit of some batches.
                    let back = match taken.into_receipt() {
                        Some(receipt) if most == 7 && thread.is_multiple_of(2) => {
                            limiter.refund(receipt.keep(permits as u64 - 1))
                        }
                        _ => 0,
                    };
                    charged.fetch_add(permits - usize::try_from(back).unwrap(), Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || take(thread));
            }
        });
        for (round, charged) in (0..ROUNDS).zip(charged) {
            let remaining = usize::try_from(limiter.peek(round).remaining()).unwrap();
            assert_eq!(charged.into_inner() + remaining, LIMIT, "{policy:?}");
        }
    }
}

/// Charges in any case are never lost, and end at the burst and the horizon.
#[test]
fn threads_charge_up_to_the_reach() {
    let limiter = MemoryLimiter::builder(Policy::gcra("test", Quota::per_hour(100)));
    let limiter = limiter.clock(ManualClock::new()).build().unwrap();
    let charged = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..20 {
                    let _ = limiter.check("key");
                    let permits = limiter.charge("key", Cost::of(3)).permits();
                    charged.fetch_add(usize::try_from(permits).unwrap(), Ordering::Relaxed);
                }
            });
        }
    });
    let checked = 2 * LIMIT - charged.into_inner();
    assert!((1..=34).contains(&checked), "{checked} permits were checked");
    assert_eq!(limiter.charge("key", Cost::ONE).permits(), 0);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(2 * 3_600));
}

/// While the clock does not move, quotas of one span take a burst of one of them together at most.
#[test]
fn threads_with_two_quotas_in_turn_take_the_larger_limit_at_most() {
    for policies in [["50/h", "100/h"], ["50/h by fixed-window", "100/h by fixed-window"]] {
        let admitted = admitted(&policies);
        assert!(admitted.iter().all(|&admitted| admitted <= LIMIT), "{policies:?}");
    }
}

/// A clock of which each reading panics while this is true.
#[derive(Clone, Default)]
struct Faulty(Arc<AtomicBool>);

impl Clock for Faulty {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::Relaxed), "the clock is faulty");
        Timestamp::ZERO
    }
}

/// The clock is read while the states of the key are held.
#[test]
fn a_clock_that_panics_leaves_every_state_as_it_was() {
    for text in ["10/h", "10/h by fixed-window", "10/h by sliding-log"] {
        let clock = Faulty::default();
        let policy = Policy::parse("test", text).unwrap();
        let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap();
        assert!(limiter.check_n("key", Cost::of(4)).is_admitted());
        clock.0.store(true, Ordering::Relaxed);
        for key in ["key", "other"] {
            let peek = AssertUnwindSafe(|| limiter.peek(key));
            assert!(catch_unwind(peek).is_err());
            let check = AssertUnwindSafe(|| limiter.check(key));
            assert!(catch_unwind(check).is_err());
        }
        clock.0.store(false, Ordering::Relaxed);
        assert_eq!(limiter.peek("key").remaining(), 6, "{text}");
        assert!(limiter.check_n("other", Cost::of(10)).is_admitted(), "{text}");
    }
}
