//! Lists of demands on a store and on one in memory that decides while the store fails.

use std::time::Duration;

use super::{World, check, now, policy, refund, world};
use futures::{FutureExt, executor::block_on};
use limiter_core::{
    Block, Blocks, Cost, Demand, ErrorKind, Fallback, JointDecision, Key, Limiter, MemoryLimiter,
    Receipt, Source, decide,
};

fn demand<'a>(limiter: &'a dyn Limiter, key: &'a str, cost: u64) -> Demand<'a> {
    Demand::new(limiter, key, Cost::of(cost))
}

fn sources(joint: &JointDecision) -> Vec<Option<Source>> {
    (0..joint.len()).map(|index| joint.decision(index).map(|it| it.source())).collect()
}

#[test]
fn a_list_is_charged_in_memory_as_by_the_store() {
    let world = world("10/min", "10/min");
    let sibling = world.limiter.sibling(&policy("5/min")).unwrap();
    let list = [
        demand(&world.limiter, "alice", 4),
        Demand::only_ask(&world.limiter, "blocked", Cost::ONE),
        demand(&sibling, "alice", 5),
    ];
    let joint = now(decide(&list));
    assert!(joint.is_admitted());
    assert_eq!(sources(&joint), [Some(Source::State); 3]);
    assert_eq!((world.left("alice"), world.left("blocked")), ((6, 6), (10, 10)));
    let (places, receipts): (Vec<_>, Vec<_>) = joint.into_receipts().unzip();
    assert_eq!(places, [0, 2]);
    // The sibling's permits are used up.
    assert!(!now(decide(&list)).is_admitted());
    assert_eq!(world.left("alice"), (6, 6));
    let [of_limiter, of_sibling] = <[Receipt; 2]>::try_from(receipts).unwrap();
    assert_eq!((refund(&world.limiter, of_limiter), refund(&sibling, of_sibling)), (4, 5));
    assert_eq!(world.left("alice"), (10, 10));
    world.store.set_failing(true);
    assert_eq!(check(&sibling, "alice").remaining(), 4, "given back in memory, too");
}

/// The store has charged the first demand and fails at the second: nothing of the list is the store's.
#[test]
fn a_list_that_fails_is_decided_whole_in_memory() {
    let world = world("10/min", "7/min");
    let sibling = world.limiter.sibling(&policy("5/min")).unwrap();
    let list = [demand(&world.limiter, "alice", 3), demand(&sibling, "alice", 5)];
    let mut decided = decide(&list);
    for _ in 0..2 {
        assert!((&mut decided).now_or_never().is_none());
    }
    assert_eq!(world.left("alice"), (7, 7), "the first demand is charged by the store alone");
    world.store.set_failing(true);
    let joint = now(decided);
    assert!(joint.is_admitted());
    assert_eq!(sources(&joint), [Some(Source::Local); 2]);
    assert_eq!(world.local.peek("alice").remaining(), 4);
    // All or none in memory, too.
    let refused = now(decide(&list));
    assert_eq!(refused.refusing().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
    assert_eq!(world.local.peek("alice").remaining(), 4);
    let receipts: Vec<_> = joint.into_receipts().map(|it| it.1).collect();
    let [of_limiter, of_sibling] = <[Receipt; 2]>::try_from(receipts).unwrap();
    assert_eq!((refund(&world.limiter, of_limiter), refund(&sibling, of_sibling)), (3, 5));
    assert_eq!(world.local.peek("alice").remaining(), 7);
}

/// They are of one store, so they are decided together.
#[test]
fn a_list_may_have_demands_without_a_fallback() {
    let world = world("10/min", "10/min");
    let plain = Limiter::sibling(&world.store, &policy("5/min")).unwrap();
    let lists = [
        [demand(&world.limiter, "alice", 1), demand(&plain, "alice", 1)],
        [demand(&plain, "alice", 1), demand(&world.limiter, "alice", 1)],
    ];
    for list in &lists {
        let receipts: Vec<_> = now(decide(list)).into_receipts().collect();
        assert_eq!((receipts.len(), world.left("alice")), (2, (9, 9)));
        for (index, receipt) in receipts {
            assert_eq!(now(list[index].limiter().refund(receipt)), 1);
        }
        assert_eq!(world.left("alice"), (10, 10));
    }
    world.store.set_failing(true);
    for list in &lists {
        assert_eq!(block_on(decide(list)).unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(world.local.peek("alice").remaining(), 10);
    }
}

/// A limiter in memory beside it is charged with it, or not at all.
#[test]
fn a_list_of_several_stores_is_decided_in_memory_as_far_as_one_fails() {
    let world = world("10/min", "2/min");
    let memory =
        MemoryLimiter::builder(policy("9/min")).clock(world.clock.clone()).build().unwrap();
    world.store.set_failing(true);
    let list = [demand(&memory, "alice", 1), demand(&world.limiter, "alice", 1)];
    for left in [8, 7] {
        let joint = now(decide(&list));
        assert_eq!(sources(&joint), [Some(Source::State), Some(Source::Local)]);
        assert_eq!(memory.peek("alice").remaining(), left);
    }
    assert!(!now(decide(&list)).is_admitted());
    assert_eq!(memory.peek("alice").remaining(), 7);
}

/// Strikes before the outage count in it.
#[test]
fn blocks_hold_while_the_store_fails() {
    let World { limiter, store, .. } = world("100/min", "100/min");
    let block = Block::after(3).within(Duration::from_secs(60)).lasting(Duration::from_secs(600));
    let (blocks, key) = (Blocks::new(&limiter, &block).unwrap(), Key::from("alice"));
    let is_free = || now(decide(&blocks.demands(&key))).is_admitted();
    assert_eq!((now(blocks.strike(&key)), now(blocks.strike(&key))), (None, None));
    store.set_failing(true);
    assert!(is_free());
    assert_eq!(now(blocks.strike(&key)), Some(Duration::from_secs(600)));
    assert!(!is_free());
}

/// As a list of cached denials is.
#[test]
fn a_refusal_that_is_ready_stays_ready() {
    let store = MemoryLimiter::new(policy("1/h"));
    let limiter = Fallback::new(store.clone());
    assert!(store.check("alice").is_admitted());
    let decided = decide(&[demand(&limiter, "alice", 1), demand(&limiter, "bob", 1)]);
    assert!(!decided.as_ready().unwrap().as_ref().unwrap().is_admitted());
    assert_eq!(check(&limiter, "bob").remaining(), 0, "not charged before");
}

#[test]
fn a_block_that_doubles_holds_by_a_share() {
    const MINUTE: Duration = Duration::from_secs(60);
    let block = Block::after(1).lasting(MINUTE).doubling(4 * MINUTE);
    for processes in [1, 2] {
        let World { limiter, store, .. } = world("60/min", "60/min");
        let limiter = limiter.sharing(super::among(processes)).unwrap();
        let (blocks, key) = (Blocks::new(&limiter, &block).unwrap(), Key::from("mallory"));
        store.set_failing(true);
        let struck = block_on(blocks.strike(&key)).unwrap();
        assert!(struck.is_some_and(|length| length >= MINUTE), "{processes}: {struck:?}");
        assert_eq!(block_on(blocks.blocked_for(&key)).unwrap(), struck.unwrap());
    }
}
