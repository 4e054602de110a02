//! How much memory a key takes.

use std::time::Duration;

use allocation_counter::measure;
use anyhow::{Context, Result};
use limiter_core::{ManualClock, MemoryLimiter, Policy};
use limiter_test::traffic::contenders;

const PERMITS: u64 = 100;

/// Twice the keys that are used, so that each has a place of its own.
const CAPACITY: usize = 20_000;
const KEYS: u64 = 10_000;

/// Prints the bytes that a key takes.
pub(super) fn table() -> Result<()> {
    println!(
        "## Bytes a key\n\nBytes for each key of the capacity, and bytes allocated beyond that for a key that \
         has taken 1 permit, for one that has taken {PERMITS} permits of {PERMITS} in 100 s, one a \
         second, and for one that has recovered.\n"
    );
    println!("| algorithm | capacity for a key | 1 permit | {PERMITS} permits | recovered |");
    println!("|---|---|---|---|---|");
    for contender in contenders(PERMITS, PERMITS) {
        let [room, one, all, recovered] = bytes(&contender.policy)?;
        println!("| {} | {room} | {one} | {all} | {recovered} |", contender.name);
    }
    println!();
    Ok(())
}

fn bytes(policy: &Policy) -> Result<[i64; 4]> {
    let clock = ManualClock::new();
    let build = |capacity| {
        MemoryLimiter::builder(policy.clone()).capacity(capacity).clock(clock.clone()).build()
    };
    let mut built = None;
    let capacity = measure(|| built = Some(build(CAPACITY))).bytes_current;
    let limiter = built.context("the limiter was built")??;

    let second = Duration::from_secs(1);
    let one = measure(|| take_one_each(&limiter)).bytes_current;
    let more = measure(|| {
        for _ in 1..PERMITS {
            clock.advance(second);
            take_one_each(&limiter);
        }
    });
    let all = one + more.bytes_current;
    clock.advance(second * 1_000);
    let peeked = measure(|| {
        for key in 0..KEYS {
            limiter.peek(key);
        }
    });
    let recovered = all + peeked.bytes_current;
    let a_key = |bytes| each(bytes, KEYS);
    Ok([each(capacity, CAPACITY as u64), a_key(one), a_key(all), a_key(recovered)])
}

fn take_one_each(limiter: &MemoryLimiter<ManualClock>) {
    for key in 0..KEYS {
        let _ = limiter.check(key);
    }
}

/// Returns the share of each, rounded to the nearest.
fn each(bytes: i64, number: u64) -> i64 {
    let number = number.cast_signed();
    (bytes + number / 2) / number
}
