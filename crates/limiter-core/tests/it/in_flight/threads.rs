//! Many threads on few keys.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use limiter_core::{InFlight, InFlightPermit};

const KEYS: usize = 3;
const LIMIT: u32 = 4;

/// Counts what runs of each key beside the limiter, and the most that ran.
#[derive(Default)]
struct Audit {
    running: [AtomicU32; KEYS],
    most: AtomicU32,
    admitted: AtomicUsize,
}

impl Audit {
    fn run(&self, key: usize, permit: InFlightPermit) {
        let running = self.running[key].fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.admitted.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        self.running[key].fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }
}

#[test]
fn threads_never_exceed_the_limit_and_all_permits_are_returned() {
    let limiter = InFlight::new("test", LIMIT).unwrap();
    let audit = Audit::default();
    thread::scope(|scope| {
        for number in 0..16 {
            let (limiter, audit) = (&limiter, &audit);
            scope.spawn(move || {
                for round in 0..2_000 {
                    let key = (number + round) % KEYS;
                    let entry = match number % 4 {
                        0 => limiter.acquire_blocking(key, Some(Duration::from_micros(50))),
                        1 => limiter.acquire_blocking(key, None),
                        2 => limiter.try_enter_under(key, LIMIT - 1),
                        _ => limiter.try_enter(key),
                    };
                    if let Some(permit) = entry.into_permit() {
                        audit.run(key, permit);
                    }
                }
            });
        }
    });
    let most = audit.most.into_inner();
    println!("{} admissions, at most {most} at once", audit.admitted.into_inner());
    assert!(most <= LIMIT, "{most} ran at once");
    let stats = limiter.stats();
    assert_eq!((stats.held(), stats.keys(), stats.waiting()), (0, 0, 0));
}

#[test]
fn a_limit_that_changes_all_the_time_strands_nobody() {
    let limiter = InFlight::new("test", 1).unwrap();
    let left = AtomicUsize::new(4);
    let audit = Audit::default();
    thread::scope(|scope| {
        for number in 0..4 {
            let (limiter, audit, left) = (&limiter, &audit, &left);
            scope.spawn(move || {
                for round in 0..2_000 {
                    let key = (number + round) % KEYS;
                    let entry = limiter.acquire_blocking(key, None);
                    audit.run(key, entry.into_permit().unwrap());
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut limits = (1..=3).cycle();
        while left.load(Ordering::SeqCst) > 0 {
            limiter.set_limit(limits.next().unwrap()).unwrap();
        }
    });
    assert_eq!(audit.admitted.into_inner(), 8_000);
    assert!(audit.most.into_inner() <= 3);
    assert_eq!(limiter.stats().held(), 0);
}
