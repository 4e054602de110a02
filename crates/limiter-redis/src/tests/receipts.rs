//! Receipts and resets in sequences that once failed.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota, Receipt, Timestamp};
use limiter_test::subject::Subject;

use super::store::{Store, policy, unique};

const SECOND: Timestamp = Timestamp::from_nanos(1_000_000_000);

const MINUTE: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Timestamp {
    SECOND.saturating_add(Duration::from_secs(seconds))
}

fn gcra(window: Duration, burst: u64) -> Policy {
    Policy::gcra("test", Quota::new(1, window).unwrap().try_with_burst(burst).unwrap())
}

/// Once nothing was returned, because the refund stopped at what was reserved behind it.
#[test]
fn a_refund_before_a_reservation_behind_it_gives_back_what_it_can() {
    let mut limiter = Store::new().limiter(gcra(Duration::from_secs(1), 10));
    let taken = limiter.reserve(at(0), "key", Cost::of(10), Duration::ZERO);
    let behind = limiter.reserve(at(0), "key", Cost::of(5), Duration::from_secs(60));
    assert_eq!(behind.delay(), Some(Duration::from_secs(5)));
    assert_eq!(limiter.refund(at(0), taken.into_receipt().unwrap()), 5);
}

/// A part of a reservation was once returned before its moment, and then what was charged before it.
#[test]
fn a_reservation_is_refunded_whole_or_not_at_all_before_its_time() {
    for policy in
        ["10/s", "10/s by fixed-window", "10/s by sliding-log", "10/s by sub-windows 5 slots"]
    {
        let policy = Policy::parse("test", policy).unwrap();
        let mut limiter = Store::new().limiter(policy.clone());
        let _first = limiter.reserve(at(0), "key", Cost::of(10), Duration::ZERO);
        let reserve = |limiter: &mut _| {
            let reserved = Subject::reserve(limiter, at(0), "key", Cost::of(4), 3 * MINUTE);
            reserved.into_receipt().unwrap()
        };
        let behind = reserve(&mut limiter);
        let before = limiter.peek(at(0), "key");
        assert_eq!(limiter.refund(at(0), behind.keep(1)), 0, "{policy:?}");
        assert_eq!(limiter.peek(at(0), "key"), before, "{policy:?}");
        let behind = reserve(&mut limiter);
        assert_eq!(limiter.refund(at(0), behind), 4, "{policy:?}");
        assert_eq!(limiter.peek(at(0), "key"), before, "{policy:?}");
    }
}

/// A refund after the clock had stepped back once gave a new allowance.
#[test]
fn a_receipt_from_later_than_now_gives_nothing() {
    for policy in ["10/s", "10/s by fixed-window", "10/s by sliding-log"] {
        let policy = Policy::parse("test", policy).unwrap();
        let mut limiter = Store::new().limiter(policy.clone());
        let taken = limiter.reserve(at(5), "key", Cost::of(10), Duration::ZERO);
        let earlier = Timestamp::from_nanos(at(5).as_nanos() - 1_000);
        assert_eq!(limiter.refund(earlier, taken.into_receipt().unwrap()), 0, "{policy:?}");
        assert!(!limiter.decide(earlier, "key", Cost::ONE).is_admitted(), "{policy:?}");
    }
}

/// Once the value that was left could not be read, and counted as full.
#[test]
fn a_reset_of_a_recovered_key_leaves_a_fresh_one() {
    let mut limiter = Store::new().limiter(gcra(Duration::from_secs(1), 1));
    assert!(limiter.decide(at(0), "key", Cost::ONE).is_admitted());
    limiter.reset(at(1), "key");
    assert!(limiter.decide(at(1), "key", Cost::ONE).is_admitted());
}

/// Once a refund lowered the totals of all later entries, so their number was bounded.
#[test]
fn a_refund_to_a_log_gives_back_behind_any_number_of_later_entries() {
    let policy = Policy::parse("test", "10000/h by sliding-log").unwrap();
    let mut limiter = Store::new().limiter(policy);
    let micros = |n: u64| SECOND.saturating_add(Duration::from_micros(n));
    let taken = limiter.reserve(micros(0), "key", Cost::of(3), Duration::ZERO);
    for n in 1..=1_001 {
        assert!(limiter.decide(micros(n), "key", Cost::ONE).is_admitted());
    }
    let now = micros(1_002);
    let before = limiter.peek(now, "key").remaining();
    assert_eq!(limiter.refund(now, taken.into_receipt().unwrap()), 3);
    assert_eq!(limiter.peek(now, "key").remaining(), before + 3);
}

#[test]
fn receipts_of_other_limiters_give_nothing_back() {
    let (store, prefix) = (Store::new(), unique());
    let [one, other] = [(); 2].map(|()| store.limiter_of(&prefix, &policy("5/day"), 0));
    let reserve = || {
        let reserved = one.reserve("key", Cost::of(2), Duration::ZERO);
        store.block_on(reserved).unwrap().into_receipt().unwrap()
    };
    let used = || store.block_on(one.peek("key")).unwrap().used();
    assert_eq!(store.block_on(other.refund(reserve())).unwrap(), 0);
    assert_eq!(store.block_on(one.refund(Receipt::new("a stranger's", 1))).unwrap(), 0);
    assert_eq!(used(), 2);
    let handle = one.with_policy(&policy("7/day")).unwrap();
    assert_eq!(store.block_on(handle.refund(reserve())).unwrap(), 2);
    assert_eq!(used(), 2);
    let from_before_reset = reserve();
    store.block_on(one.reset("key")).unwrap();
    assert_eq!(store.block_on(one.refund(from_before_reset)).unwrap(), 0);
}
