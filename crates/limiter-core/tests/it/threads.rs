//! Many threads on one key.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy};

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

/// While the clock stands still, debts are the same in permits under both quotas.
#[test]
fn threads_with_two_quotas_in_turn_take_the_larger_limit_at_most() {
    for policies in [["50/h", "100/h"], ["50/h by fixed-window", "100/min by fixed-window"]] {
        let admitted = admitted(&policies);
        assert!(admitted.iter().all(|&admitted| admitted <= LIMIT), "{policies:?}");
    }
}
