//! The limiter in memory, beyond what every limiter does.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use crate::{limiter_of, policy};
use limiter_core::{
    Block, Blocks, Builder, Clock, Cost, ManualClock, MemoryLimiter, Policy, Quota, Reservation,
    Store, SystemClock, Timestamp,
};

#[test]
fn an_invalid_capacity_is_refused() {
    let builder = || MemoryLimiter::builder(Policy::gcra("test", Quota::per_minute(2)));
    for capacity in [0, Builder::MAX_CAPACITY + 1, usize::MAX] {
        let error = builder().capacity(capacity).build().unwrap_err();
        let message = format!("invalid capacity \"{capacity}\": use 1 to 268435456");
        assert_eq!(error.to_string(), message);
    }
    for entries in [0, Builder::MAX_ENTRIES_PER_KEY + 1] {
        let error = builder().entries_per_key(entries).build().unwrap_err();
        let message = format!("invalid entries per key \"{entries}\": use 1 to 1000000");
        assert_eq!(error.to_string(), message);
    }
}

/// Once a flood of fresh keys took a thousand times the memory that its entries need.
#[test]
fn a_flood_of_fresh_keys_on_a_log_takes_no_more_memory() {
    let (limiter, clock) =
        limiter_of(policy("1000/h by sliding-log"), |builder| builder.capacity(1_000));
    let flood = |keys: std::ops::Range<u64>| {
        let allocations = allocation_counter::measure(|| {
            for key in keys {
                let _ = limiter.check(key);
                clock.advance(Duration::from_millis(1));
            }
        });
        allocations.bytes_current
    };
    let first = flood(0..50_000);
    assert!(first < 1_000 * 350, "{first} bytes for 1,000 keys");
    let grown = flood(50_000..150_000);
    assert!(grown < 1 << 20, "{grown} bytes more");
}

/// A key has a queue as long as it has waiters.
#[test]
fn waiters_that_have_left_take_no_memory() {
    let (limiter, _) = limiter_of(policy("1/h"), |builder| builder.capacity(1_000));
    let allocations = allocation_counter::measure(|| {
        for key in 0..1_000_u64 {
            assert!(limiter.check(key).is_admitted());
            let mut waiter = limiter.acquire(key, Cost::ONE, None);
            assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    });
    assert!(allocations.bytes_current < 10_000, "{} bytes", allocations.bytes_current);
}

/// A preview copied the state of its key under the lock: 16 MB for a log of 1,000,000 permits.
#[test]
fn a_preview_of_a_long_log_copies_nothing() {
    let (limiter, clock) =
        limiter_of(policy("10000/h by sliding-log"), |builder| builder.capacity(1_000));
    let preview = |cost| limiter.preview(&"key".into(), cost).unwrap();
    for _ in 0..9_999 {
        assert!(limiter.check("key").is_admitted());
        clock.advance(Duration::from_millis(1));
    }
    let allocations = allocation_counter::measure(|| {
        assert!(preview(Cost::ONE).is_admitted());
        assert!(!preview(Cost::of(2)).is_admitted());
    });
    assert_eq!(allocations.bytes_total, 0);
    // The usage is the one before the charge.
    assert_eq!(preview(Cost::ONE).remaining(), 1);
    assert_eq!(preview(Cost::of(2)), limiter.check_n("key", Cost::of(2)));
}

/// A receipt held the table of its limiter, 4 MB, as long as it was kept.
#[test]
fn a_receipt_keeps_no_limiter_in_memory() {
    for policy in ["10/min", "10/min by fixed-window", "10/min by sliding-log"] {
        let mut receipt = None;
        let allocations = allocation_counter::measure(|| {
            let limiter = MemoryLimiter::new(crate::policy(policy));
            receipt = limiter.reserve("key", Cost::ONE, Duration::ZERO).into_receipt();
        });
        let bytes = allocations.bytes_current;
        // The policy.
        assert!(bytes < 1_024, "{bytes} bytes by {policy}");
        assert!(receipt.is_some());
    }
}

/// One key's reservation, and a step back of the clock, made another key of its line wait for the
/// reservation.
#[test]
fn a_reservation_and_a_step_back_cost_no_other_key_anything() {
    for policy in ["1/s", "1/s by fixed-window", "1/s by sliding-log"] {
        for round in 0..20 {
            let (limiter, clock) = limiter_of(crate::policy(policy), |builder| builder.capacity(8));
            clock.set(Timestamp::from_nanos(10_000_000_000_000));
            for _ in 0..50 {
                let _ = limiter.reserve("far", Cost::ONE, Duration::from_secs(3_600));
            }
            let near = format!("near {round}");
            assert!(limiter.check(near.as_str()).is_admitted());
            clock.set(Timestamp::from_nanos(10_000_000_000_000 - 120_000_000_000));
            let _ = limiter.check("far");
            let wait = limiter.check(near.as_str()).retry_after().unwrap();
            assert!(wait <= Duration::from_secs(1), "{policy}: {wait:?}");
        }
    }
}

#[test]
fn the_end_of_time_admits_no_more_than_the_burst() {
    let (limiter, clock) = limiter_of(policy("2/min"), |builder| builder.capacity(64));
    clock.set(Timestamp::MAX);
    assert!(limiter.check_n("key", Cost::of(2)).is_admitted());
    assert!(!limiter.check("key").is_admitted());
}

#[test]
fn the_system_clock_agrees_with_the_operating_system() {
    // Each reading is between two of the operating system's, whatever happens between them.
    let read = || {
        let before = std::time::Instant::now();
        (before, SystemClock::new().now(), std::time::Instant::now())
    };
    let first = read();
    while first.2.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let last = read();
    let ours = last.1.saturating_since(first.1);
    let (least, most) = (last.0 - first.2, last.2 - first.0);
    let inexact = Duration::from_millis(1);
    assert!(
        (least - inexact..most + inexact).contains(&ours),
        "{ours:?}, not {least:?} to {most:?}"
    );
}

/// A waiter that was polled long after it was due was once charged as if that were the present, by
/// which the debts of the other keys seemed impossible and were lowered.
#[test]
fn a_waiter_that_is_late_lowers_no_debt_of_another_key() {
    for policy in ["1/s", "1/s by sliding-log"] {
        let (limiter, clock) = limiter_of(crate::policy(policy), |builder| builder.capacity(1));
        assert!(limiter.check("late").is_admitted());
        let mut waiter = limiter.acquire("late", Cost::ONE, None);
        let poll = |waiter: &mut Pin<Box<dyn Future<Output = Reservation> + Send>>| {
            waiter.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        assert!(poll(&mut waiter).is_pending());
        clock.advance(Duration::from_secs(3_600));
        for key in 0..64_u64 {
            let _ = limiter.check(key);
        }
        let _ = poll(&mut waiter);
        for key in 0..64_u64 {
            assert!(!limiter.check(key).is_admitted(), "{policy}: {key}");
        }
    }
}

/// A peek or a refusal of a new key took a slot, and left later keys without one.
#[test]
fn a_peek_of_a_new_key_takes_no_slot() {
    let (limiter, _) = limiter_of(policy("2/h by fixed-window"), |builder| builder.capacity(8));
    for key in 0..15_u64 {
        assert!(limiter.check(key).is_admitted());
    }
    for key in 100..200_u64 {
        assert_eq!(limiter.peek(key).remaining(), 2);
        assert!(!limiter.check_n(key, Cost::of(3)).is_admitted());
    }
    assert!(limiter.check(200_u64).is_admitted(), "one slot was left");
    assert!(!limiter.check(201_u64).is_admitted());
}

/// Returns how many bytes more are allocated after `make` than before.
fn bytes_of<T>(make: impl FnOnce() -> T) -> i64 {
    let mut made = None;
    let allocations = allocation_counter::measure(|| made = Some(make()));
    allocations.bytes_current
}

/// A sibling took as much as a limiter of 100,000 keys, 3.8 MB, and blocks 26 MB.
#[test]
fn siblings_and_blocks_take_as_much_memory_as_they_need() {
    let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(10)));
    let policy = Policy::gcra("tenant", Quota::per_minute(10));
    let sibling = bytes_of(|| limiter.sibling_with_capacity(&policy, 100).unwrap());
    assert!(sibling < 40_000, "{sibling} bytes for 100 keys");
    let error = limiter.sibling_with_capacity(&policy, 0).unwrap_err();
    assert_eq!(error.to_string(), "invalid capacity \"0\": use 1 to 268435456");

    let block = Block::after(10).doubling(Duration::from_secs(3_600));
    for (keys, block) in [(10_000, block), (100, block.capacity(100))] {
        let bytes = bytes_of(|| Blocks::new(&limiter, &block).unwrap());
        println!("{} bytes a key of blocks", bytes / keys);
        // And the queues of three limiters, of 10 kB each.
        assert!(bytes < 30_000 + keys * 270, "{bytes} bytes for {keys} keys");
    }
}

/// The documentation of the capacity had 480 bytes, and that of blocks 16 bytes a strike.
#[test]
fn logs_take_the_memory_that_is_documented() {
    const KEYS: i64 = 1_000;
    let builder = || {
        let policy = Policy::parse("test", "1000/h by sliding-log").unwrap();
        MemoryLimiter::builder(policy).capacity(KEYS.try_into().unwrap())
    };
    for (charges, of_a_key, in_all) in
        [(1, 50..80, 300..330), (9, 290..320, 630..670), (100, 290..320, 630..670)]
    {
        let clock = ManualClock::new();
        let limiter = builder().clock(clock.clone()).build().unwrap();
        let table = bytes_of(|| builder().clock(clock.clone()).build().unwrap()) / KEYS;
        let check = |keys: i64| {
            for _ in 0..charges {
                for key in 0..keys {
                    let _ = limiter.check(key);
                    clock.advance(Duration::from_nanos(1));
                }
            }
        };
        let some = bytes_of(|| check(KEYS)) / KEYS;
        let flood = bytes_of(|| check(10 * KEYS)) / KEYS;
        clock.advance(Duration::from_secs(3_600));
        let later = bytes_of(|| limiter.check("later")) / KEYS;
        println!(
            "{charges} charges: table {table}, +{some} for 1,000 keys, +{flood} in a flood, +{later} later"
        );
        assert!(of_a_key.contains(&some), "{some} bytes for {charges} charges");
        assert!(in_all.contains(&(table + some + flood)), "{table} + {some} + {flood} bytes a key");
    }
}

/// A service that limits each connection has 10,000 of them.
#[test]
fn a_limiter_for_one_key_takes_less_than_a_kilobyte() {
    let bytes = bytes_of(|| MemoryLimiter::builder(policy("1/h")).capacity(1).build());
    assert!(bytes < 1_024, "{bytes} bytes");
}

#[test]
fn a_handle_for_a_span_that_is_known_allocates_nothing() {
    let limiter = MemoryLimiter::new(policy("1/h"));
    let customer = policy("2/h");
    let _ = limiter.with_policy(&customer).unwrap();
    let allocations = allocation_counter::measure(|| {
        let handle = limiter.with_policy(&customer).unwrap();
        assert!(handle.check("customer").is_admitted());
    });
    assert_eq!(allocations.count_total, 0);
}
