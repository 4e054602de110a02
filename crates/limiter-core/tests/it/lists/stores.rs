//! Lists of demands on limiters in memory and in stores that have to be called.

use std::time::Duration;

use futures::executor::block_on;
use limiter_core::{
    Cost, Demand, ErrorKind, JointDecision, Limiter, ManualClock, MemoryLimiter, Store, decide,
};
use limiter_test::deferred::Deferred;

use super::{Memory, memory, now, one, policy};

/// A limiter in memory, and one in a store that has to be called.
fn mixed() -> (Memory, Deferred, ManualClock) {
    let (memory, clock) = memory("2/h");
    (memory, deferred("store", "2/h", &clock), clock)
}

fn deferred(name: &str, quota: &str, clock: &ManualClock) -> Deferred {
    Deferred::new(MemoryLimiter::builder(policy(name, quota)).clock(clock.clone()).build().unwrap())
}

#[test]
fn a_refusal_in_memory_costs_no_call() {
    let (memory, store, _) = mixed();
    assert!(memory.check_n("a", Cost::of(2)).is_admitted());
    for list in [[one(&store, "a"), one(&memory, "a")], [one(&memory, "a"), one(&store, "a")]] {
        let joint = now(&list);
        assert!(!joint.is_admitted());
        assert_eq!((joint.refusing().count(), store.checks()), (1, 0));
    }
}

#[test]
fn a_refusal_of_a_store_leaves_nothing_charged_in_memory() {
    let (memory, store, _) = mixed();
    let list = [one(&memory, "a"), Demand::new(&store, "a", Cost::of(2))];
    assert!(block_on(decide(&list)).unwrap().is_admitted());
    let joint = block_on(decide(&list)).unwrap();
    assert!(!joint.is_admitted());
    assert_eq!(memory.peek("a").remaining(), 1);
    assert_eq!(joint.refusing().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
}

/// A client that resets its requests while a store is called uses up its own permits.
#[test]
fn rules_before_a_store_are_charged_at_once_and_rules_after_it_last() {
    let (memory, store, _) = mixed();
    let remaining = |key| memory.peek(key).remaining();
    let list = [one(&memory, "before"), one(&store, "a"), one(&memory, "after")];
    for left in [1, 0] {
        drop(decide(&list));
        assert_eq!((remaining("before"), remaining("after"), store.checks()), (left, 2, 0));
    }
    assert!(!now(&list).is_admitted());
    let others = [one(&store, "a"), one(&memory, "after")];
    assert!(block_on(decide(&others)).unwrap().is_admitted());
    assert_eq!((remaining("after"), store.checks()), (1, 1));
}

#[test]
fn what_a_store_charged_is_given_back_when_another_refuses_or_fails() {
    let (_, store, clock) = mixed();
    let other = deferred("other", "1/h", &clock);
    let remaining =
        |store: &Deferred| block_on(Limiter::peek(store, &"a".into())).unwrap().remaining();
    let list = [one(&store, "a"), one(&other, "a")];
    assert!(block_on(decide(&list)).unwrap().is_admitted());
    let refused = block_on(decide(&list)).unwrap();
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(3_600)));
    let fits = refused.decision(0).unwrap();
    assert!(fits.is_admitted() && fits.remaining() == 1, "the usage before the charge");
    assert_eq!((store.refunds(), remaining(&store)), (1, 1));

    other.set_failing(true);
    let error = block_on(decide(&list)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.limiter(), Some(other.id()));
    assert_eq!((store.refunds(), remaining(&store)), (2, 1));
}

// Stores are called before the limiter in memory that stands between them is charged.
#[test]
fn receipts_have_the_order_of_the_list() {
    let (memory, first, clock) = mixed();
    let other = deferred("other", "1/h", &clock);
    let places = |joint: JointDecision| joint.into_receipts().map(|it| it.0).collect::<Vec<_>>();
    let joint = block_on(decide(&[one(&first, "a"), one(&memory, "a"), one(&other, "a")]));
    assert_eq!(places(joint.unwrap()), [0, 1, 2]);
    assert_eq!(places(now(&[one(&memory, "b").without_receipt(), one(&memory, "c")])), [1]);
    // Decided in turn, all of them had receipts.
    let list = [
        one(&first, "d").without_receipt(),
        one(&memory, "d").without_receipt(),
        one(&other, "d"),
        one(&memory, "e"),
    ];
    assert_eq!(places(block_on(decide(&list)).unwrap()), [2, 3]);
    let refused = block_on(decide(&list)).unwrap();
    assert!(!refused.is_admitted() && memory.peek("d").remaining() == 1, "given back all the same");
}

#[test]
fn a_store_decides_one_by_one_and_asks_before_it_charges() {
    let (_, store, _) = mixed();
    let block = Limiter::sibling(&store, &policy("block", "1/h")).unwrap();
    let list = [one(&store, "a"), Demand::only_ask(&block, "a", Cost::ONE)];
    assert!(block_on(decide(&list)).unwrap().is_admitted());
    assert_eq!((store.checks(), store.refunds()), (1, 0));
    assert!(block_on(block.check(&"a".into())).unwrap().is_admitted());
    let refused = block_on(decide(&list)).unwrap();
    assert!(!refused.is_admitted());
    assert_eq!(refused.decision(0), None, "it was not asked");
    assert_eq!(store.refunds(), 0, "nothing was charged before the block was asked");
    // Merged: two have to fit, one is charged.
    let both = [one(&store, "b"), Demand::only_ask(&store, "b", Cost::ONE)];
    assert!(block_on(decide(&both)).unwrap().is_admitted());
    assert!(!block_on(decide(&both)).unwrap().is_admitted());
}
