//! Waiters whose queue read the clock before another thread charged the key.
//!
//! A script of readings stands for the threads: the clock of the charge is ahead of the one that the queue reads
//! afterwards.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Clock, Cost, MemoryLimiter, Policy, Timestamp};

/// A clock that returns these readings, and the last one for ever.
#[derive(Clone, Default)]
struct Readings(Arc<Mutex<Vec<u64>>>);

impl Readings {
    /// Sets the next readings, in seconds.
    fn set(&self, readings: &[u64]) {
        *self.0.lock().unwrap() = readings.iter().rev().copied().collect();
    }
}

impl Clock for Readings {
    fn now(&self) -> Timestamp {
        let mut readings = self.0.lock().unwrap();
        let next = readings.last().copied().unwrap_or_default();
        if readings.len() > 1 {
            readings.pop();
        }
        Timestamp::ZERO.saturating_add(Duration::from_secs(next))
    }
}

fn limiter(policy: &str) -> (MemoryLimiter<Readings>, Readings) {
    let clock = Readings::default();
    let policy = Policy::parse("test", policy).unwrap();
    let builder = MemoryLimiter::builder(policy).capacity(8).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

/// The state began after the first reading of the queue, so it seemed impossible: the key was full for a
/// day, and no receipt of the limiter was refunded any more.
#[test]
fn a_charge_between_the_reading_and_the_state_is_possible() {
    for policy in
        ["10/d by fixed-window horizon 0s", "10/d horizon 0s", "10/d by sliding-log horizon 0s"]
    {
        let (limiter, clock) = limiter(policy);
        clock.set(&[200]);
        let receipt = limiter.reserve("key", Cost::of(5), Duration::ZERO).into_receipt().unwrap();
        let full = limiter.reserve("full", Cost::of(10), Duration::ZERO).into_receipt().unwrap();
        for key in ["key", "full"] {
            // The deadline, the queue, the state.
            clock.set(&[100, 100, 201]);
            let waiter = limiter.acquire_blocking(key, Cost::ONE, Some(Duration::ZERO));
            assert_eq!(waiter.is_admitted(), key == "key", "{policy}: {key}");
        }
        assert_eq!(limiter.peek("key").remaining(), 4, "{policy}");
        assert!(limiter.refund(receipt) > 0 && limiter.refund(full) > 0, "{policy}");
    }
}

/// The debt was lowered to that of a burst, so that what was reserved was admitted again.
#[test]
fn a_debt_near_its_reach_is_not_lowered() {
    let (limiter, clock) = limiter("10/s horizon 10s");
    clock.set(&[200]);
    assert!(limiter.reserve("key", Cost::of(10), Duration::ZERO).is_admitted());
    for _ in 0..10 {
        assert!(limiter.reserve("key", Cost::of(10), Duration::from_secs(10)).is_admitted());
    }
    clock.set(&[199, 199, 200]);
    let waiter = limiter.acquire_blocking("key", Cost::ONE, Some(Duration::ZERO));
    assert!(!waiter.is_admitted());
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(11));
}
