//! How much memory a key takes.

use std::time::Duration;

use allocation_counter::measure;
use anyhow::Result;
use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy};
use limiter_test::traffic::contenders;

const PERMITS: u64 = 100;

/// How many keys there is room for, and how many are used, so that each finds a place.
const ROOM: usize = 20_000;
const KEYS: u64 = 10_000;

/// Prints how many bytes are allocated for a key.
pub(super) fn table() -> Result<()> {
    println!(
        "**Memory.** Bytes for each key that there is room for; and what is allocated beside that for \
         a key that has taken 1 permit, {PERMITS} permits of {PERMITS} in 100 s, one a second, \
         and for one that has recovered.\n"
    );
    println!("| algorithm | room for a key | 1 permit | {PERMITS} permits | recovered |");
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
    let small = MemoryLimiter::new(policy.clone())?.with_capacity(1)?.with_clock(clock.clone());
    let limiter = small.with_capacity(ROOM)?;
    // Room is made when it is first used.
    let room = measure(|| {
        limiter.peek("");
    });
    let room = room.bytes_current;

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
    let looked_at = measure(|| {
        for key in 0..KEYS {
            limiter.peek(key);
        }
    });
    let recovered = all + looked_at.bytes_current;
    let a_key = |bytes| each(bytes, KEYS);
    Ok([each(room, ROOM as u64), a_key(one), a_key(all), a_key(recovered)])
}

fn take_one_each(limiter: &MemoryLimiter<ManualClock>) {
    for key in 0..KEYS {
        let _ = limiter.try_acquire(key, Cost::ONE);
    }
}

/// Returns the share of each, rounded to the nearest.
fn each(bytes: i64, number: u64) -> i64 {
    let number = number.cast_signed();
    (bytes + number / 2) / number
}
