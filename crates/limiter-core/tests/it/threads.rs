//! Many threads on one key.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};

#[test]
fn sixteen_threads_never_take_more_than_the_limit() {
    const THREADS: usize = 16;
    const ROUNDS: u64 = 1_000;
    const LIMIT: usize = 100;
    let policy = Policy::gcra("test", Quota::per_hour(LIMIT as u64).unwrap()).unwrap();
    let limiter = MemoryLimiter::new(policy).unwrap().with_clock(ManualClock::new());
    let admitted: Vec<_> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let together = Barrier::new(THREADS);

    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    together.wait();
                    for _ in 0..2 * LIMIT / THREADS {
                        if limiter.try_acquire(round, Cost::ONE).is_admitted() {
                            admitted[usize::try_from(round).unwrap()]
                                .fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });

    for (round, admitted) in admitted.iter().enumerate() {
        assert_eq!(admitted.load(Ordering::Relaxed), LIMIT, "round {round}");
    }
}
