//! The fields of a subject's hash, and when it expires.

use std::time::Duration;

use limiter_core::{Cost, Policy};
use limiter_double::Reply;

use super::store::{Store, policy, unique};

const HOUR: Duration = Duration::from_secs(3_600);

fn texts(reply: &Reply) -> Vec<String> {
    let Reply::Array(replies) = reply else { panic!("{reply:?}") };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    replies.iter().map(text).collect()
}

/// What is left of the debt of a permit at 5,000,000/s is in its decimals: a field that ends in the present microsecond is
/// not past. It was removed as soon as another quota had a field.
#[test]
fn a_debt_below_a_microsecond_outlasts_a_new_field() {
    let store = Store::new();
    let fast = store.limiter_of(&unique(), &policy("2000000/s burst 1"), 0);
    let slow = fast.with_policy(&policy("10/min")).unwrap();
    assert!(store.block_on(slow.check("alice")).unwrap().is_admitted());
    assert!(store.block_on(fast.check("alice")).unwrap().is_admitted());
    assert!(!store.block_on(fast.check("alice")).unwrap().is_admitted());
}

#[test]
fn a_new_field_removes_those_that_are_past() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &policy("10/min"), 0);
    let by = |text: &str| limiter.with_policy(&policy(text)).unwrap();
    let key = limiter.stored_keys("alice").unwrap().remove(0);
    for text in ["10/s", "10/h", "10/day"] {
        assert!(store.block_on(by(text).check("alice")).unwrap().is_admitted());
    }
    store.pass(HOUR);
    assert!(store.block_on(limiter.check("alice")).unwrap().is_admitted());
    let all = texts(&store.client.execute(&[b"HGETALL".as_slice(), &key]));
    let fields: Vec<_> = all.into_iter().step_by(2).collect();
    assert_eq!(fields, ["gcra.86400s", "gcra.60s"]);
}

/// Else a check under a short limit would give the hash an expiry of its own, and a day's count would be forgotten.
#[test]
fn a_lost_expiry_is_set_for_the_longest_field() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &policy("10/day"), 0);
    let key = limiter.stored_keys("alice").unwrap().remove(0);
    assert!(store.block_on(limiter.check_n("alice", Cost::of(10))).unwrap().is_admitted());
    store.client.execute(&[b"PERSIST".as_slice(), &key]);
    let short = limiter.with_policy(&policy("10/s")).unwrap();
    assert!(store.block_on(short.check("alice")).unwrap().is_admitted());
    store.pass(HOUR);
    let denied = store.block_on(limiter.check("alice")).unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(8_640) - HOUR));
    store.pass(24 * HOUR);
    assert_eq!(store.client.stored(&key), None);
}

/// The last admission of a burst needs the longest expiry, which the first one may have set.
#[test]
fn an_expiry_is_set_with_room_for_the_next_admissions() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &policy("10/min"), 0);
    let key = limiter.stored_keys("alice").unwrap().remove(0);
    let expiry = || match store.client.execute(&[b"PTTL".as_slice(), &key]) {
        Reply::Integer(millis) => millis,
        other => panic!("{other:?}"),
    };
    assert!(store.block_on(limiter.check("alice")).unwrap().is_admitted());
    let first = expiry();
    assert!(first >= 66_000, "{first}");
    for _ in 0..9 {
        assert!(store.block_on(limiter.check("alice")).unwrap().is_admitted());
    }
    assert_eq!(expiry(), first);
}

/// A tier has a name of its own, and the limit that has the limiter's name had another field under it.
#[test]
fn a_tier_shares_the_limit_that_has_the_limiters_name() {
    let store = Store::new();
    let limits = |name: &str, day: &str| {
        let limits = [("test", day), ("second", "1000/s")];
        let limits = limits.map(|(name, limit)| Policy::parse(name, limit).unwrap());
        Policy::all_of(name, limits).unwrap()
    };
    let free = store.limiter_of(&unique(), &limits("test", "10/day"), 0);
    let premium = free.with_policy(&limits("premium", "100/day")).unwrap();
    assert!(store.block_on(free.check_n("alice", Cost::of(5))).unwrap().is_admitted());
    assert_eq!(store.block_on(premium.peek("alice")).unwrap().remaining(), 50);
}
