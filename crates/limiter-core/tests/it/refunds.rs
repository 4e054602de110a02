//! Refunds in unkind orders: each of these once gave a key more than it may have.

use std::time::Duration;

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Receipt};

fn limiter(policy: &str) -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let policy = Policy::parse("test", policy).unwrap();
    (MemoryLimiter::new(policy).unwrap().with_clock(clock.clone()), clock)
}

fn take(limiter: &MemoryLimiter<ManualClock>, permits: u64) -> Option<Receipt> {
    let cost = Cost::new(permits).unwrap();
    limiter.reserve("key", cost, Duration::ZERO).into_receipt()
}

/// The mark of a charge is too late once an earlier charge was given back: the line has moved. The
/// second's permit had drained by then, and was given back all the same.
#[test]
fn a_refund_after_another_gives_back_no_more_than_is_left() {
    let (limiter, clock) = limiter("1/s burst 2");
    let first = take(&limiter, 2).unwrap();
    clock.advance(Duration::from_secs(1));
    let second = take(&limiter, 1).unwrap();
    limiter.refund(first);
    clock.advance(Duration::from_secs(1));
    assert!(take(&limiter, 2).is_some());
    limiter.refund(second);
    assert!(take(&limiter, 1).is_none(), "three of two at once");
}

/// A charge that has moved may come to lie where the state ends, and is not the last for that.
#[test]
fn a_charge_that_has_moved_is_not_taken_for_the_last() {
    let (limiter, clock) = limiter("1/s burst 10");
    let first = take(&limiter, 5).unwrap();
    let second = take(&limiter, 5).unwrap();
    limiter.refund(first);
    assert!(take(&limiter, 5).is_some());
    clock.advance(Duration::from_secs(6));
    limiter.refund(second);
    assert_eq!(limiter.peek("key").remaining(), 6);
}

/// A nearer promise once took the place of a farther one, whose key was then lowered.
#[test]
fn the_farthest_promise_is_remembered() {
    let (limiter, _) = limiter("1/h");
    let hours = |hours: u64| Duration::from_secs(3_600 * hours);
    for _ in 0..3 {
        assert!(limiter.reserve("far", Cost::ONE, hours(9)).delay().is_some());
    }
    for _ in 0..2 {
        assert!(limiter.reserve("near", Cost::ONE, hours(9)).delay().is_some());
    }
    let wait = limiter.try_acquire("far", Cost::ONE).retry_after();
    assert_eq!(wait, Some(hours(3)));
}

/// What was taken after the reset stood where the receipt's permits had been.
#[test]
fn a_receipt_from_before_a_reset_gives_back_nothing() {
    for policy in [
        "1/s",
        "1/s by fixed-window",
        "1/s by sliding-counter",
        "1/s by sliding-log",
        "1/s by sub-windows 10 slots",
    ] {
        let (limiter, _) = limiter(policy);
        let before = take(&limiter, 1).unwrap();
        limiter.reset("key");
        let after = take(&limiter, 1).unwrap();
        limiter.refund(before);
        assert!(take(&limiter, 1).is_none(), "{policy}");
        limiter.refund(after);
        assert!(take(&limiter, 1).is_some(), "{policy}");
    }
}

/// A promise takes the state on to a later window; giving it back made that a fresh one, and the
/// present one was forgotten.
#[test]
fn a_promise_that_is_given_back_does_not_bring_a_fresh_window() {
    for policy in
        ["60/min by fixed-window", "60/min by fixed-window aligned", "60/min by sliding-counter"]
    {
        for promised in [1, 30, 60] {
            let (limiter, _) = limiter(policy);
            let mut admitted = 0;
            for _ in 0..5 {
                while take(&limiter, 1).is_some() {
                    admitted += 1;
                }
                let cost = Cost::new(promised).unwrap();
                let later = limiter.reserve("key", cost, Duration::from_secs(1_000));
                limiter.refund(later.into_receipt().unwrap());
            }
            assert_eq!(admitted, 60, "{policy}, {promised} promised");
        }
    }
}

/// The receipt's mark belonged to another tier's state.
#[test]
fn a_refund_through_another_tier_gives_back_by_its_own() {
    let clock = ManualClock::new();
    let policy = Policy::parse("free", "10/min").unwrap();
    let policy = policy.with_tier(Policy::parse("pro", "100/min").unwrap()).unwrap();
    let free = MemoryLimiter::new(policy).unwrap().with_clock(clock);
    let pro = free.tier("pro").unwrap();
    let receipt = pro.reserve("key", Cost::new(50).unwrap(), Duration::ZERO).into_receipt();
    free.refund(receipt.unwrap());
    assert_eq!((pro.peek("key").remaining(), free.peek("key").remaining()), (100, 0));
}

#[test]
fn a_receipt_of_another_limiter_gives_back_nothing() {
    let ((limiter, _), (other, _)) = (limiter("10/min"), limiter("10/min"));
    assert!(take(&limiter, 10).is_some());
    limiter.refund(take(&other, 5).unwrap());
    // A limiter's outside of the crate, whatever it says.
    limiter.refund(Receipt::of_store((), u64::MAX));
    limiter.refund(Receipt::of_store("key", 5).keep(1));
    assert_eq!(limiter.peek("key").remaining(), 0);
    assert!(take(&limiter, 5).is_none() && other.peek("key").remaining() == 5);
}
