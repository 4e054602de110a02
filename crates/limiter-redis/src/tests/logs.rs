//! Long logs: what a refusal reads and leaves.

use std::time::Duration;

use limiter_core::{Cost, Policy};
use limiter_double::{Stored, Value};

use super::store::{Store, unique};

/// Entries that are past are read once, also if the next request is refused. A client could else let each refusal read all
/// entries of a day.
#[test]
fn a_refusal_removes_many_entries_that_are_past() {
    for text in ["200/s by sliding-log", "200/s by sub-windows 500 slots"] {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &Policy::parse("test", text).unwrap(), 0);
        let key = limiter.stored_keys("alice").unwrap().remove(0);
        let entries = || match store.client.stored(&key) {
            Some(Stored { value: Value::List(elements), .. }) => elements.len(),
            other => panic!("{other:?}"),
        };
        for _ in 0..200 {
            assert!(store.block_on(limiter.check("alice")).unwrap().is_admitted());
            store.pass(Duration::from_millis(4));
        }
        assert_eq!(entries(), 200, "{text}");
        store.pass(Duration::from_millis(600));
        let refused = store.block_on(limiter.check_n("alice", Cost::of(200))).unwrap();
        assert!(!refused.is_admitted());
        assert!((90..110).contains(&entries()), "{text}: {}", entries());
        // All of it was counted right.
        store.pass(refused.retry_after().unwrap());
        assert!(store.block_on(limiter.check_n("alice", Cost::of(200))).unwrap().is_admitted());
        assert_eq!(entries(), 1, "{text}");
    }
}
