//! Refunds in unkind orders: each of these once gave a key more than it may have, or less than it
//! could.

use std::time::Duration;

use crate::{Memory, limiter};
use limiter_core::{Cost, Receipt, Timestamp};

fn take(limiter: &Memory, permits: u64) -> Option<Receipt> {
    take_of(limiter, "key", permits)
}

fn take_of(limiter: &Memory, key: &str, permits: u64) -> Option<Receipt> {
    limiter.reserve(key, Cost::of(permits), Duration::ZERO).into_receipt()
}

const SECOND: Duration = Duration::from_secs(1);

/// Several limits gave back a reservation in one limit and not in another.
#[test]
fn a_reservation_is_refunded_in_all_limits_or_in_none() {
    let (limiter, clock) = limiter("10/s and 20/min by fixed-window");
    let _now = take(&limiter, 10).unwrap();
    let mut receipts = Vec::new();
    for _ in 0..2 {
        let reservation = limiter.reserve("key", Cost::of(5), SECOND);
        receipts.extend(reservation.into_receipt());
    }
    let before = limiter.peek("key");
    let behind = receipts.pop().unwrap();
    assert_eq!(limiter.refund(behind.keep(1)), 0);
    assert_eq!(limiter.peek("key"), before);
    // The one before it has to stay, by GCRA, because of the one behind.
    assert_eq!(limiter.refund(receipts.pop().unwrap()), 0);
    assert_eq!(limiter.peek("key"), before);
    clock.advance(SECOND);
    assert_eq!(limiter.peek("key").remaining(), 0);
}

/// A refund after the clock stepped back gave a new allowance.
#[test]
fn a_receipt_from_later_than_now_gives_nothing() {
    for policy in ["10/s", "10/s by fixed-window", "10/s by sliding-log", "10/s and 20/min"] {
        let (limiter, clock) = limiter(policy);
        clock.set(Timestamp::from_nanos(5_000_000_000));
        let receipt = take(&limiter, 10).unwrap();
        clock.set(Timestamp::from_nanos(4_999_999_999));
        assert_eq!(limiter.refund(receipt), 0, "{policy}");
        assert_eq!(limiter.peek("key").remaining(), 0, "{policy}");
    }
}

/// What counts at an earlier moment stays when a later window's charges come back, because the clock may step back.
#[test]
fn a_window_whose_charges_came_back_counts_the_one_before() {
    let (limiter, clock) = limiter("10/s by sliding-counter");
    let at = |millis: u64| clock.set(Timestamp::from_nanos(millis * 1_000_000));
    at(1_000);
    let _full = take(&limiter, 10).unwrap();
    at(2_900);
    let second = take(&limiter, 1).unwrap();
    at(3_000);
    let third = take(&limiter, 1).unwrap();
    assert_eq!([limiter.refund(third), limiter.refund(second)], [1, 1]);
    at(2_000);
    assert_eq!(limiter.peek("key").remaining(), 0);
}

/// A state from before the clock stepped back is impossible, and a full debt replaces it. Receipts from
/// before gave back permits of that debt, although what they had charged had drained long ago.
#[test]
fn a_receipt_from_before_a_debt_was_replaced_gives_back_nothing() {
    for policy in [
        "10/s",
        "10/s by fixed-window",
        "10/s by aligned-window",
        "10/s by sliding-counter",
        "10/s by sub-windows 5 slots",
        "10/s by sub-windows 5 slots loose",
        "10/s by sliding-log",
        "10/s and 20/min",
    ] {
        for made in [199_950, 200_000] {
            let (limiter, clock) = limiter(policy);
            let at = |millis: u64| clock.set(Timestamp::from_nanos(millis * 1_000_000));
            at(made);
            if policy.contains("aligned") {
                // A full debt fills the next window too.
                assert!(take(&limiter, 10).is_some());
            }
            let receipt = limiter.reserve("key", Cost::of(9), SECOND).into_receipt().unwrap();
            at(86_400_000);
            let later = take(&limiter, 10).unwrap();
            at(200_000);
            assert_eq!(limiter.refund(receipt), 0, "{policy}, made at {made} ms");
            assert_eq!(limiter.refund(later), 0, "{policy}, made later");
            assert!(take(&limiter, 1).is_none(), "{policy}, made at {made} ms");
            // What is charged behind the full debt is returned.
            let behind = limiter.reserve("key", Cost::of(5), 60 * SECOND).into_receipt().unwrap();
            assert_eq!(limiter.refund(behind), 5, "{policy}, made behind");
            at(300_000);
            let receipt = take(&limiter, 10).unwrap();
            assert_eq!(limiter.refund(receipt), 10, "{policy}, made afterwards");
        }
    }
}

/// What a refund returns under several limits was the least that any limit got back: zero, if one of
/// them had recovered.
#[test]
fn a_refund_returns_the_most_that_any_limit_got_back() {
    let (limiter, clock) = limiter("10/s and 20/min by fixed-window");
    let receipt = take(&limiter, 10).unwrap();
    clock.advance(2 * SECOND);
    assert_eq!(limiter.refund(receipt), 10);
}

/// What the guide says of long calls.
#[test]
fn a_long_call_gets_back_what_would_not_have_drained() {
    let (limiter, clock) = limiter("100_000/h");
    let calls: Vec<_> = (0..5).map(|_| take(&limiter, 4_000).unwrap()).collect();
    clock.advance(120 * SECOND);
    let back: u64 = calls.into_iter().map(|call| limiter.refund(call.keep(500))).sum();
    // Of each call 3,333 and a third have drained meanwhile, as if it had been alone.
    assert_eq!(back, 5 * 667);
}

/// The free tier was charged for the moment at which premium's permits would be returned, and what
/// premium gave back was not given back to it: after 600 of which 10 were kept, twice, it had none.
#[test]
fn a_refund_through_one_handle_counts_for_the_other() {
    for algorithm in ["gcra", "fixed-window", "sliding-counter", "sliding-log"] {
        let (free, _) = limiter(&format!("1000/h by {algorithm}"));
        let premium = crate::policy(&format!("10000/h by {algorithm}"));
        let premium = free.with_policy(&premium).unwrap();
        for _ in 0..2 {
            let receipt = take(&premium, 600).unwrap();
            assert_eq!(premium.refund(receipt.keep(10)), 590, "{algorithm}");
        }
        // 20 of 10,000 are 2 of 1,000.
        let left = if algorithm == "gcra" { 998 } else { 980 };
        assert_eq!(free.peek("key").remaining(), left, "{algorithm}");
    }
}

#[test]
fn a_receipt_gives_back_its_permits_also_after_another_quota_has_charged() {
    for (policy, other) in [
        ("10/s", "20/s"),
        ("10/s by fixed-window", "20/s by fixed-window"),
        ("10/s by sliding-log", "20/s by sliding-log"),
        ("10/s by sliding-log", "20/2s by sliding-log"),
    ] {
        let (limiter, _) = limiter(policy);
        let other = limiter.with_policy(&crate::policy(other)).unwrap();
        let [first, second] = [(); 2].map(|()| take(&limiter, 2).unwrap());
        assert!(take(&other, 1).is_some());
        assert_eq!(limiter.refund(first), 2, "{policy}");
        assert_eq!(limiter.refund(second), 2, "{policy}");
        assert!(limiter.peek("key").remaining() >= 9, "{policy}");
    }
}

/// One check by a clock that had stepped back by a nanosecond voided the receipts of all keys that
/// shared a line of the table.
#[test]
fn a_clock_one_nanosecond_behind_costs_no_other_key_its_receipt() {
    for policy in ["100/s", "100/s by fixed-window", "100/s by sliding-log"] {
        let (limiter, clock) = limiter(policy);
        clock.advance(SECOND);
        let receipts: Vec<_> =
            (0..6).map(|key| take_of(&limiter, &key.to_string(), 50).unwrap()).collect();
        clock.set(Timestamp::from_nanos(999_999_999));
        let _ = limiter.check("other");
        clock.set(Timestamp::from_nanos(1_000_000_000));
        for receipt in receipts {
            assert_eq!(limiter.refund(receipt), 50, "{policy}");
        }
    }
}

/// `reset("bob")` voided the receipts of the keys that shared a line with Bob.
#[test]
fn a_reset_of_one_key_costs_no_other_key_its_receipt() {
    for policy in ["100/s", "100/s by sliding-counter", "100/s by sliding-log"] {
        for round in 0..40 {
            let (limiter, _) = limiter(policy);
            let alice = take_of(&limiter, &format!("alice {round}"), 50).unwrap();
            for bob in 0..4 {
                let bob = format!("bob {bob}");
                let _ = limiter.check(bob.as_str());
                limiter.reset(bob.as_str());
            }
            assert_eq!(limiter.refund(alice), 50, "{policy}");
        }
    }
}

/// After a reset, a receipt may give back later charges, but no more than it has.
#[test]
fn a_receipt_from_before_a_reset_gives_back_no_more_than_its_permits() {
    for policy in ["10/s", "10/s by fixed-window", "10/s by sliding-counter", "10/s by sliding-log"]
    {
        let (limiter, _) = limiter(policy);
        let before = take(&limiter, 2).unwrap();
        limiter.reset("key");
        assert!(take(&limiter, 10).is_some());
        assert!(limiter.refund(before) <= 2, "{policy}");
        assert!(limiter.peek("key").remaining() <= 2, "{policy}");
    }
}

#[test]
fn a_receipt_of_another_limiter_gives_back_nothing() {
    let ((limiter, _), (other, _)) = (limiter("10/min"), limiter("10/min"));
    assert!(take(&limiter, 10).is_some());
    assert_eq!(limiter.refund(take(&other, 5).unwrap()), 0);
    // A store's outside of the crate, whatever it says.
    assert_eq!(limiter.refund(Receipt::new((), u64::MAX)), 0);
    assert_eq!(limiter.refund(Receipt::new("key", 5).keep(1)), 0);
    assert_eq!((limiter.peek("key").remaining(), other.peek("key").remaining()), (0, 5));
}

/// The seed of the hashes can be computed from hashes.
#[test]
fn debug_of_a_receipt_prints_no_hash() {
    let receipt = take(&limiter("10/min").0, 5).unwrap();
    assert_eq!(format!("{receipt:?}"), "Receipt { permits: 5, .. }");
}

#[test]
fn a_refund_that_gives_back_nothing_forgets_no_window() {
    let (limiter, clock) = limiter("10/min by fixed-window");
    let receipt = limiter.reserve("key", Cost::of(10), Duration::ZERO).into_receipt().unwrap();
    clock.advance(61 * SECOND);
    assert_eq!(limiter.refund(receipt), 0);
    clock.set(Timestamp::from_nanos(30_000_000_000));
    assert!(!limiter.check("key").is_admitted());
}

#[test]
fn reservations_for_several_windows_come_back_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for algorithm in ["fixed-window", "sliding-counter"] {
            let (limiter, clock) = limiter(&format!("10/s by {algorithm}"));
            assert!(take(&limiter, 7).is_some());
            let before = limiter.peek("key");
            let mut receipts = [6, 7, 8].map(|permits| {
                limiter.reserve("key", Cost::of(permits), 60 * SECOND).into_receipt()
            });
            for index in order {
                let receipt = receipts.get_mut(index).and_then(Option::take).unwrap();
                let permits = receipt.permits();
                assert_eq!(limiter.refund(receipt), permits, "{algorithm}, {order:?}");
            }
            assert_eq!(limiter.peek("key"), before, "{algorithm}, {order:?}");
            clock.advance(2 * SECOND);
            assert!(take(&limiter, 10).is_some(), "{algorithm}, {order:?}");
        }
    }
}
