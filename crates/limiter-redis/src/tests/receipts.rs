//! Receipts and resets in sequences that once went wrong.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota, Timestamp};
use limiter_test::subject::{Operations, Subject};

use super::store::Store;

const SECOND: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn at(seconds: u64) -> Timestamp {
    SECOND.saturating_add(Duration::from_secs(seconds))
}

fn gcra(window: Duration, burst: u64) -> Policy {
    Policy::gcra("test", Quota::new(1, window).unwrap().try_with_burst(burst).unwrap())
}

/// The receipt's mark is in units of the quota that charged it.
#[test]
fn a_receipt_of_another_quota_gives_nothing_back() {
    let slow = gcra(Duration::from_secs(100), 10);
    let fast = gcra(Duration::from_millis(100), 10);
    let mut limiter = Store::new().limiter(slow.clone());
    let reservation = limiter.reserve(at(0), "key", Cost::of(5), Duration::ZERO);
    assert!(limiter.decide_by(at(1), &fast, "key", Cost::ONE).is_admitted());
    let before = limiter.peek(at(1), "key");
    assert_eq!(limiter.refund(at(1), reservation.into_receipt().unwrap()), 0);
    assert_eq!(limiter.peek(at(1), "key"), before);
}

/// Once nothing came back, because the refund stopped at what was reserved behind it.
#[test]
fn a_refund_before_a_reservation_behind_it_gives_back_what_it_can() {
    let mut limiter = Store::new().limiter(gcra(Duration::from_secs(1), 10));
    let taken = limiter.reserve(at(0), "key", Cost::of(10), Duration::ZERO);
    let behind = limiter.reserve(at(0), "key", Cost::of(5), Duration::from_secs(60));
    assert_eq!(behind.delay(), Some(Duration::from_secs(5)));
    assert_eq!(limiter.refund(at(0), taken.into_receipt().unwrap()), 5);
}

/// Once the value that was left could not be read, and counted as full.
#[test]
fn a_reset_of_a_recovered_key_leaves_a_fresh_one() {
    let mut limiter = Store::new().limiter(gcra(Duration::from_secs(1), 1));
    assert!(limiter.decide(at(0), "key", Cost::ONE).is_admitted());
    limiter.reset(at(1), "key");
    assert!(limiter.decide(at(1), "key", Cost::ONE).is_admitted());
}
