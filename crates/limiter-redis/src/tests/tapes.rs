//! What a ledger's tape does that is seldom: it comes to be, slides, and goes; and counts that another
//! quota has left take more bytes or fewer.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota, Timestamp, Usage, algorithm::Slots};
use limiter_test::subject::{Operations, Subject};

use super::{
    store::{EPOCH, Store},
    twins::traffic::Pair,
};

const KEY: &str = "key";
/// A head and a pocket.
const BEGINNING: u64 = 155;

/// So many steps that the entries of a window fill a tape, and slide along it.
#[test]
fn a_tape_comes_to_be_slides_and_goes() {
    let store = Store::new();
    let quota = Quota::per(300, Duration::from_millis(300)).unwrap();
    let mut pair = Pair::new(&Policy::sliding_log("test", quota).unwrap());
    let mut now = Timestamp::ZERO.saturating_add(EPOCH);
    let mut check = |pair: &mut Pair, number: u32, gap_us: u64| {
        for _ in 0..number {
            now = now.saturating_add(Duration::from_micros(gap_us));
            pair.check(now, 0, Cost::ONE);
        }
        pair.compare(&store).unwrap();
        pair.bytes(&store)
    };
    assert_eq!(check(&mut pair, 14, 1_000), BEGINNING);
    assert!(check(&mut pair, 1, 1_000) > BEGINNING + 14 * 9);
    let full = BEGINNING + 299 * 9;
    for _ in 0..10 {
        let bytes = check(&mut pair, 300, 1_001);
        assert!(bytes > full - 20 * 9 && bytes < full * 3 / 2, "{bytes}");
    }
    // Half of the window, and then a few entries of a window after a burst.
    let bytes = check(&mut pair, 450, 2_003);
    assert!(bytes < full, "{bytes}");
    check(&mut pair, 300, 500);
    assert_eq!(check(&mut pair, 30, 60_000), BEGINNING);
}

fn policy(permits: u64) -> Policy {
    let quota = Quota::per_minute(permits).unwrap();
    Policy::sub_windows("test", quota, Slots::strict(60).unwrap()).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO.saturating_add(Duration::from_secs(seconds))
}

fn left(usage: Usage) -> (u64, Duration) {
    (usage.remaining(), usage.reset_after())
}

#[test]
fn counts_above_24_bits_are_exact() {
    let most = (1 << 39) - 1;
    let store = Store::new();
    let mut limiter = store.limiter(policy(most));
    let mut taken = 0;
    for second in 0..40 {
        let cost = (1 << 33) + second;
        taken += cost;
        assert!(limiter.decide(at(second), KEY, Cost::new(cost).unwrap()).is_admitted());
    }
    assert_eq!(left(limiter.peek(at(39), KEY)), (most - taken, Duration::from_secs(61)));
    // The first two seconds are over.
    let usage = limiter.peek(at(62), KEY);
    assert_eq!(usage.remaining(), most - taken + 2 * (1 << 33) + 1);
    let reserved = limiter.reserve(at(62), KEY, Cost::new(1 << 33).unwrap(), Duration::ZERO);
    limiter.refund(at(62), reserved.into_receipt().unwrap());
    assert_eq!(limiter.peek(at(62), KEY).remaining(), usage.remaining());
}

#[test]
fn another_quota_reads_counts_of_either_length() {
    let (small, large) = (10_000, 1 << 30);
    let store = Store::new();
    let mut limiter = store.limiter(policy(small));
    for second in 0..40 {
        let decision = limiter.decide(at(second), KEY, Cost::new(100 + second).unwrap());
        assert!(decision.is_admitted());
    }
    let taken = 40 * 100 + 39 * 20;
    limiter.replace(at(39), policy(large));
    assert_eq!(limiter.peek(at(39), KEY).remaining(), large - taken);
    assert!(limiter.decide(at(40), KEY, Cost::new(1 << 29).unwrap()).is_admitted());
    assert_eq!(limiter.peek(at(61), KEY).remaining(), large - taken + 100 - (1 << 29));

    // More than a short count tells, and as full.
    limiter.replace(at(61), policy(small));
    assert_eq!(limiter.peek(at(61), KEY).remaining(), 0);
    assert!(!limiter.decide(at(61), KEY, Cost::ONE).is_admitted());
    let delay = Duration::from_secs(40);
    let reserved = limiter.reserve(at(61), KEY, Cost::ONE, delay);
    assert_eq!(reserved.delay(), Some(delay));
    assert_eq!(limiter.peek(at(101), KEY).remaining(), small - 1);
}
