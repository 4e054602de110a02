//! The entries of logs, which all keys share.

use std::{sync::Barrier, thread, time::Duration};

use limiter_core::{Clock, Cost, MemoryLimiter, Timestamp};

use crate::{limiter_of, policy};

/// Logs that had recovered held their entries until their keys were used again: an hour after 16 keys with four
/// checks each, one key at 1/s was refused 16 times in 20 minutes.
#[test]
fn recovered_logs_free_their_entries_for_other_keys() {
    for keys in [16, 1_000] {
        // Twice as many slots as keys, so that each key finds one.
        let (limiter, clock) = limiter_of(policy("100/min by sliding-log"), |builder| {
            builder.capacity(2 * keys).entries_per_key(2)
        });
        for key in 0..keys as u64 {
            for _ in 0..4 {
                assert!(limiter.check(key).is_admitted());
            }
        }
        clock.advance(Duration::from_secs(3_600));
        let mut most_used = 0;
        for second in 0..1_200 {
            let decision = limiter.check("one more");
            assert!(decision.is_admitted(), "{second} s, {keys} keys");
            most_used = most_used.max(decision.usage().used());
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(most_used, 60, "as in a fresh limiter, {keys} keys");
    }
}

/// A log of 1,000,000 permits kept 524,288 entries, because the next allocation would have been too large,
/// and then allocated anew at each admission.
#[test]
fn a_log_at_the_budget_uses_all_of_it_and_allocates_no_more() {
    const ENTRIES: u32 = 100_000;
    let (limiter, clock) = limiter_of(policy("200000/d by sliding-log"), |builder| {
        builder.capacity(1).entries_per_key(ENTRIES as usize)
    });
    let admit = |permits: u64| {
        for _ in 0..permits {
            assert!(limiter.check("key").is_admitted());
            clock.advance(Duration::from_nanos(1));
        }
    };
    let entries = u64::from(ENTRIES);
    admit(entries);
    let allocations = allocation_counter::measure(|| admit(1_000));
    assert_eq!(allocations.count_total, 0);
    assert_eq!(limiter.peek("key").used(), entries + 1_000);
    // The first permits leave the log one by one.
    clock.advance(Duration::from_secs(86_400) - Duration::from_nanos(entries + 1_000));
    clock.advance(Duration::from_nanos(entries / 2 - 1));
    let used = limiter.peek("key").used();
    assert!((entries / 2 + 1_000..entries / 2 + 1_100).contains(&used), "{used}");
}

/// A reservation keeps its moment, even if there is no memory for another entry.
#[test]
fn reserved_permits_are_not_merged() {
    let (limiter, _) =
        limiter_of(policy("1/s by sliding-log"), |builder| builder.capacity(1).entries_per_key(8));
    for second in 0..60 {
        let reserved = limiter.reserve("key", Cost::ONE, Duration::from_secs(60));
        assert_eq!(reserved.delay(), Some(Duration::from_secs(second)));
    }
}

/// Four logs that share the memory of one recover later by a part of the age of their entries, and serve five sixths of
/// their limit.
#[test]
fn logs_without_memory_for_all_of_their_entries_recover_all_the_time() {
    let (limiter, clock) = limiter_of(policy("100/100s by sliding-log"), |builder| {
        builder.capacity(1).entries_per_key(8)
    });
    clock.advance(Duration::from_secs(86_400));
    for check in 0..500 {
        for key in 0..4_u64 {
            assert!(limiter.check(key).is_admitted(), "check {check} of {key}");
        }
        clock.advance(Duration::from_millis(1_200));
    }
}

/// Permits that join the entry of their slot need no other entries merged.
#[test]
fn permits_of_one_slot_merge_no_others() {
    let (limiter, clock) = limiter_of(policy("1000/8s by sub-windows 8 slots"), |builder| {
        builder.capacity(1).entries_per_key(8)
    });
    for _ in 0..7 {
        assert!(limiter.check("key").is_admitted());
        clock.advance(Duration::from_secs(1));
    }
    for _ in 0..101 {
        assert!(limiter.check("key").is_admitted());
    }
    assert_eq!(limiter.peek("key").used(), 108);
    clock.advance(Duration::from_secs(2));
    assert_eq!(limiter.peek("key").used(), 107, "the first slot has left the window");
}

/// Logs that were mended after a step back freed entries that were counted on: then a lone key had hardly any, and was
/// refused 884 of 3,600 times after one step, and 1,691 times after five.
#[test]
fn a_step_back_loses_no_entries() {
    for steps in [0, 1, 5] {
        let (limiter, clock) =
            limiter_of(policy("100/min by sliding-log"), |builder| builder.capacity(16));
        clock.advance(Duration::from_secs(86_400));
        for _ in 0..steps {
            for key in 0..200_u64 {
                for _ in 0..40 {
                    let _ = limiter.check(key);
                    clock.advance(Duration::from_nanos(1));
                }
            }
            clock.set(Timestamp::from_nanos(clock.now().as_nanos() - 3_600_000_000_000));
            for key in 1_000..1_200_u64 {
                let _ = limiter.check(key);
            }
            clock.advance(Duration::from_secs(7_200));
        }
        let mut refused = 0;
        for _ in 0..3_600 {
            refused += usize::from(!limiter.check("lone").is_admitted());
            clock.advance(Duration::from_secs(60) / 90);
        }
        assert_eq!(refused, 0, "after {steps} steps");
    }
}

/// Two logs that grew at the same time each took all that was left of the budget.
#[test]
fn logs_that_grow_at_once_share_what_is_left() {
    const LENGTH: u32 = 1 << 14;
    for _ in 0..20 {
        // 48 entries a key are shared, which is room for both logs, and for one of them to grow.
        let (limiter, clock) = limiter_of(policy("20000/d by sliding-log"), |builder| {
            builder.capacity(1 << 10).entries_per_key(8 + 48)
        });
        let charge = |key| {
            assert!(limiter.check(key).is_admitted());
            clock.advance(Duration::from_nanos(1));
        };
        for _ in 0..LENGTH {
            charge("alice");
            charge("bob");
        }
        let barrier = Barrier::new(2);
        let grow = |key| {
            barrier.wait();
            let before = usize::try_from(LENGTH).unwrap();
            let bytes = allocation_counter::measure(|| charge(key)).bytes_total;
            (bytes / 16).saturating_sub(before as u64)
        };
        let grown = thread::scope(|scope| {
            let other = scope.spawn(|| grow("bob"));
            grow("alice") + other.join().unwrap()
        });
        assert!(grown <= u64::from(LENGTH), "{grown} entries more, of {LENGTH} that were left");
    }
}

/// The copy by which a list with a log twice restored it had memory for no further entry, so that entries were merged.
#[test]
fn a_list_with_one_log_twice_merges_no_entries_while_there_is_room() {
    let second = Duration::from_secs(1);
    for is_list in [false, true] {
        let (limiter, clock) = limiter_of(policy("20/100s by sliding-log"), |builder| builder);
        for _ in 0..15 {
            assert!(limiter.check("key").is_admitted());
            clock.advance(second);
        }
        if is_list {
            let demands = [(); 2].map(|()| limiter.demand("key", Cost::ONE));
            assert!(MemoryLimiter::decide(&demands).is_admitted());
        } else {
            assert!(limiter.check_n("key", Cost::of(2)).is_admitted());
        }
        // The oldest entry leaves alone.
        let refusal = limiter.check_n("key", Cost::of(4));
        assert_eq!(refusal.retry_after(), Some(85 * second), "as a list: {is_list}");
    }
}
