//! What became of receipts and resets in sequences that once went wrong.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota, Timestamp};
use limiter_test::subject::{Operations, Subject};

use super::store::Store;

const SECOND: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn at(seconds: u64) -> Timestamp {
    SECOND.saturating_add(Duration::from_secs(seconds))
}

fn gcra(window: Duration, burst: u64) -> Policy {
    let quota = Quota::per(1, window).and_then(|quota| quota.with_burst(burst)).unwrap();
    Policy::gcra("test", quota).unwrap()
}

#[test]
fn a_receipt_from_before_a_reset_stays_void() {
    // Once, the note of the reset ended with the shorter one of a policy that was there for a while.
    let slow = gcra(Duration::from_secs(100), 10);
    let mut limiter = Store::new().limiter(slow.clone());
    let five = Cost::new(5).unwrap();
    let reservation = limiter.reserve(at(0), "key", five, Duration::ZERO);
    limiter.reset(at(1), "key");
    assert!(limiter.decide(at(2), "key", Cost::ONE).is_admitted());
    limiter.replace(at(3), gcra(Duration::from_millis(100), 10));
    assert!(limiter.decide(at(3), "key", Cost::ONE).is_admitted());
    limiter.replace(at(4), slow);
    for seconds in [4, 200, 200, 200] {
        assert!(limiter.decide(at(seconds), "key", Cost::ONE).is_admitted());
    }
    let before = limiter.peek(at(450), "key");
    limiter.refund(at(450), reservation.into_receipt().unwrap());
    assert_eq!(limiter.peek(at(450), "key"), before);
}

#[test]
fn a_reset_of_a_recovered_key_leaves_a_fresh_one() {
    // Once, what was left was an empty text, which can't be read, and counted as full.
    let mut limiter = Store::new().limiter(gcra(Duration::from_secs(1), 1));
    assert!(limiter.decide(at(0), "key", Cost::ONE).is_admitted());
    limiter.reset(at(1), "key");
    assert!(limiter.decide(at(1), "key", Cost::ONE).is_admitted());
}
