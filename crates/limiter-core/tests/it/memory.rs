//! The limiter in memory, beyond what every limiter does.

use std::time::Duration;

use limiter_core::{
    Clock, Cost, Limiter, ManualClock, MemoryLimiter, Policy, Quota, SystemClock, Timestamp,
};

fn limiter(capacity: usize) -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let policy = Policy::gcra("test", Quota::per_minute(2).unwrap()).unwrap();
    let limiter = MemoryLimiter::new(policy).unwrap().with_capacity(capacity).unwrap();
    (limiter.with_clock(clock.clone()), clock)
}

#[test]
fn a_flood_of_keys_never_resets_a_debtor() {
    let (limiter, _) = limiter(1_000);
    for _ in 0..2 {
        assert!(limiter.try_acquire("debtor", Cost::ONE).is_admitted());
    }
    for fresh in 0..100_000_u64 {
        let _ = limiter.try_acquire(fresh, Cost::ONE);
    }
    assert!(!limiter.try_acquire("debtor", Cost::ONE).is_admitted());
}

#[test]
fn no_key_of_a_flood_takes_more_than_its_limit() {
    let (limiter, clock) = limiter(64);
    let mut admitted = [0; 2_000];
    for round in 0..4 {
        for (key, admitted) in admitted.iter_mut().enumerate() {
            let decision = limiter.try_acquire(key as u64, Cost::ONE);
            *admitted += usize::from(decision.is_admitted());
        }
        // One permit comes back in the second half of the whole test.
        clock.advance(Duration::from_secs(if round == 1 { 30 } else { 0 }));
    }
    assert!(admitted.iter().all(|&admitted| admitted <= 3), "{admitted:?}");
}

#[test]
fn recovered_keys_make_room() {
    // Few enough at a time that no line of the table is ever full.
    let (limiter, clock) = limiter(1);
    for generation in 0..1_000_u64 {
        for key in 0..16 {
            let decision = limiter.try_acquire(generation * 16 + key, Cost::new(2).unwrap());
            assert!(decision.is_admitted(), "generation {generation}, key {key}");
        }
        clock.advance(Duration::from_secs(60));
    }
}

#[test]
fn a_full_table_makes_newcomers_wait_but_not_for_ever() {
    let (limiter, clock) = limiter(1);
    for key in 0..100_u64 {
        let _ = limiter.try_acquire(key, Cost::new(2).unwrap());
    }
    assert!(!limiter.try_acquire("newcomer", Cost::ONE).is_admitted());
    clock.advance(Duration::from_secs(60));
    assert!(limiter.try_acquire("newcomer", Cost::new(2).unwrap()).is_admitted());
}

/// A key that was charged while its line was full once got a fresh state when a slot was free.
#[test]
fn a_key_that_had_to_share_keeps_its_debt_when_it_gets_a_place() {
    let (limiter, clock) = limiter(1);
    for key in 0..16_u64 {
        assert!(limiter.try_acquire(key, Cost::ONE).is_admitted());
    }
    clock.advance(Duration::from_secs(1));
    assert!(limiter.try_acquire("late", Cost::new(2).unwrap()).is_admitted());
    // The others have recovered, so there are places; the late one has not.
    clock.advance(Duration::from_secs(29));
    assert!(!limiter.try_acquire("late", Cost::ONE).is_admitted());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.try_acquire("late", Cost::ONE).is_admitted());
}

/// Debts from before a step back once kept newcomers out until the clock had caught up.
#[test]
fn a_clock_that_steps_back_keeps_newcomers_out_for_one_recovery_at_most() {
    let (limiter, clock) = limiter(1);
    clock.advance(Duration::from_secs(86_400));
    let both = Cost::new(2).unwrap();
    for key in 0..16_u64 {
        assert!(limiter.try_acquire(key, both).is_admitted());
    }
    clock.set(Timestamp::ZERO);
    let _ = limiter.try_acquire("newcomer", both);
    clock.advance(Duration::from_secs(60));
    for newcomer in 16..32_u64 {
        assert!(limiter.try_acquire(newcomer, both).is_admitted(), "newcomer {newcomer}");
    }
}

#[test]
fn an_impossible_capacity_is_refused() {
    for capacity in [0, MemoryLimiter::MAX_CAPACITY + 1, usize::MAX] {
        let policy = Policy::gcra("test", Quota::per_minute(2).unwrap()).unwrap();
        let error = MemoryLimiter::new(policy).unwrap().with_capacity(capacity).unwrap_err();
        let message = format!("a capacity of {capacity} keys: use 1 to 268435456");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_clock_may_start_anywhere() {
    for start in [0, 1_790_000_000_000_000_000, u64::MAX - 60_000_000_000] {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(start));
        let policy = Policy::gcra("test", Quota::per_minute(2).unwrap()).unwrap();
        let limiter = MemoryLimiter::new(policy).unwrap().with_clock(clock.clone());
        let all = Cost::new(2).unwrap();
        assert!(limiter.try_acquire("key", all).is_admitted());
        assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
        clock.advance(Duration::from_secs(60));
        assert!(limiter.try_acquire("key", all).is_admitted(), "a start at {start}");
    }
}

#[test]
fn the_end_of_time_admits_no_more_than_the_burst() {
    let (limiter, clock) = limiter(64);
    clock.set(Timestamp::MAX);
    assert!(limiter.try_acquire("key", Cost::new(2).unwrap()).is_admitted());
    assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
}

#[test]
fn a_check_in_memory_is_ready_at_once() {
    let (limiter, _) = limiter(64);
    let mut check = limiter.check(&"key".into(), Cost::ONE);
    assert!(check.take_ready().unwrap().unwrap().is_admitted());
    assert!(check.take_ready().is_none());
}

#[test]
fn the_system_clock_agrees_with_the_operating_system() {
    let clock = SystemClock::new();
    let (ours, theirs) = (clock.now(), std::time::Instant::now());
    std::thread::sleep(Duration::from_millis(200));
    let ours = SystemClock::new().now().saturating_since(ours);
    let theirs = theirs.elapsed();
    assert!(ours.abs_diff(theirs) < Duration::from_millis(20), "{ours:?} against {theirs:?}");
}
