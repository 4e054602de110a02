//! Memory is bounded, and freed.

use std::{
    hash::{BuildHasherDefault, DefaultHasher},
    ops::Range,
};

use allocation_counter::measure;
use limiter_core::{InFlight, ManualClock};

use super::{Task, permits};

#[test]
fn a_flood_of_keys_takes_bounded_memory_and_leaves_none() {
    const KEYS: usize = 10_000;
    let limiter = InFlight::builder("test", 1).capacity(KEYS).clock(ManualClock::new());
    let limiter = limiter.build().unwrap();
    let mut held = Vec::with_capacity(KEYS);
    let flood = measure(|| {
        held.extend((0..20 * KEYS).filter_map(|key| limiter.try_enter(key).into_permit()));
    });
    assert_eq!((held.len(), limiter.stats().keys()), (KEYS, KEYS));
    println!("{} bytes a key", flood.bytes_current / KEYS as i64);
    assert!(flood.bytes_current < 150 * KEYS as i64, "{flood:?}");
    let end = measure(|| held.clear());
    let left = flood.bytes_current + end.bytes_current;
    // Each of 64 shards may keep room for some keys.
    assert!(left < 64 * 4_096, "{left} bytes are left");
}

#[test]
fn permits_and_refusals_allocate_nothing() {
    let limiter = InFlight::new("test", 1).unwrap();
    drop(limiter.try_enter("alice"));
    let mut entry = None;
    assert_eq!(measure(|| entry = Some(limiter.try_enter("alice"))).count_total, 0);
    assert_eq!(measure(|| drop(limiter.try_enter("alice"))).count_total, 0);
    assert_eq!(measure(|| assert_eq!(limiter.held("alice"), 1)).count_total, 0);
    assert_eq!(measure(|| drop(entry)).count_total, 0);
}

#[test]
fn waiters_that_have_left_leave_no_memory() {
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let builder = InFlight::builder("test", 1).hasher(hasher).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    let _held = permits((0..2_000).map(|key| limiter.try_enter(key)));
    let wait = |keys: Range<u64>| {
        let tasks = keys.map(|key| Task::waiting(limiter.acquire(key, None)));
        drop(tasks.collect::<Vec<_>>());
    };
    // Each shard keeps room for some waiters.
    wait(0..1_000);
    assert_eq!(measure(|| wait(1_000..2_000)).bytes_current, 0);
}
