//! A limiter on a store, and one in memory that decides while the store fails.

mod lists;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use futures::{FutureExt, executor::block_on};
use limiter_core::{
    Cost, Decision, Demand, Error, ErrorKind, Fallback, Key, Limiter, LimiterFuture, ManualClock,
    MemoryLimiter, Policy, Receipt, Reservation, Source, Store as _, Usage, WaitingLimiter, decide,
};
use limiter_test::{deferred::Deferred, fake::Fake};

type Memory = MemoryLimiter<ManualClock>;

/// A fallback, and the limiters that it consists of.
struct World {
    limiter: Fallback<Deferred, Memory>,
    store: Deferred,
    /// The store's states.
    stored: Memory,
    local: Memory,
    clock: ManualClock,
}

fn policy(text: &str) -> Policy {
    Policy::parse("api", text).unwrap()
}

fn among(processes: u32) -> NonZeroU32 {
    NonZeroU32::new(processes).unwrap()
}

/// Returns a limiter by these quotas of the store and of the limiter in memory.
fn world(stored: &str, local: &str) -> World {
    let clock = ManualClock::new();
    let memory = |text| MemoryLimiter::builder(policy(text)).clock(clock.clone()).build().unwrap();
    let (stored, local) = (memory(stored), memory(local));
    let store = Deferred::new(stored.clone());
    let limiter = Fallback::new(store.clone()).with(local.clone());
    World { limiter, store, stored, local, clock }
}

fn now<T>(future: LimiterFuture<T>) -> T {
    block_on(future).unwrap()
}

/// Returns a result for which nobody has to move the clock.
fn soon<T>(future: &mut LimiterFuture<T>) -> Option<T> {
    // A store executes an operation at the second poll.
    let result = (&mut *future).now_or_never().or_else(|| future.now_or_never());
    result.map(Result::unwrap)
}

fn check(limiter: &dyn Limiter, key: &str) -> Decision {
    now(limiter.check(&key.into()))
}

fn reserve(limiter: &dyn Limiter, key: &str, cost: u64) -> Reservation {
    now(limiter.reserve(&key.into(), Cost::of(cost), Duration::ZERO))
}

fn refund(limiter: &dyn Limiter, receipt: Receipt) -> u64 {
    now(limiter.refund(receipt))
}

impl World {
    /// Returns what is left of a key in the store, and in memory.
    fn left(&self, key: &str) -> (u64, u64) {
        (self.stored.peek(key).remaining(), self.local.peek(key).remaining())
    }
}

/// 10 a minute: 4 by the store, then 6 in memory.
#[test]
fn an_outage_gives_no_key_a_new_allowance() {
    let World { limiter, store, .. } = world("10/min", "10/min");
    for remaining in (6..10).rev() {
        let decision = check(&limiter, "alice");
        assert_eq!((decision.source(), decision.remaining()), (Source::State, remaining));
    }
    store.set_failing(true);
    for remaining in (0..6).rev() {
        let decision = check(&limiter, "alice");
        assert_eq!((decision.source(), decision.remaining()), (Source::Local, remaining));
    }
    let refused = check(&limiter, "alice");
    assert_eq!((refused.is_admitted(), refused.source()), (false, Source::Local));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(6)));
    assert!(check(&limiter, "bob").is_admitted());
}

#[test]
fn every_charge_by_the_store_is_charged_in_memory() {
    let world = world("10/min", "10/min");
    let key = &"alice".into();
    assert!(now(world.limiter.check_n(key, Cost::of(2))).is_admitted());
    assert_eq!(world.left("alice"), (8, 8));
    assert!(reserve(&world.limiter, "alice", 3).is_admitted());
    assert_eq!(world.left("alice"), (5, 5));
    assert_eq!(now(world.limiter.take_up_to(key, Cost::of(4))).permits(), 4);
    assert_eq!(now(world.limiter.charge(key, Cost::ONE)).permits(), 1);
    assert_eq!(world.left("alice"), (0, 0));
    // A refusal charges nothing.
    assert!(!check(&world.limiter, "alice").is_admitted());
    world.clock.advance(Duration::from_secs(6));
    assert_eq!(world.left("alice"), (1, 1));
}

#[test]
fn what_is_more_than_the_share_uses_up_all_of_it() {
    let world = world("40/min", "10/min");
    assert!(reserve(&world.limiter, "alice", 30).is_admitted());
    assert!(now(world.limiter.check_n(&"bob".into(), Cost::of(30))).is_admitted());
    assert_eq!((world.left("alice"), world.left("bob")), ((10, 0), (10, 0)));
    // A charge in any case leaves a debt there, too.
    assert_eq!(now(world.limiter.charge(&"carol".into(), Cost::of(15))).permits(), 15);
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(world.left("carol"), (40, 0));
}

#[test]
fn every_operation_is_decided_in_memory_while_the_store_fails() {
    let World { limiter, store, stored, .. } = world("10/min", "4/min");
    let key: &Key<'_> = &"alice".into();
    for kind in [ErrorKind::Unavailable, ErrorKind::Undetermined, ErrorKind::Unexpected] {
        store.fail_with(Some(Error::new(kind, "it broke")));
        assert_eq!(now(limiter.peek(key)).remaining(), 4);
        assert_eq!(now(limiter.check_n(key, Cost::of(3))).source(), Source::Local);
        assert_eq!(now(limiter.peek(key)).remaining(), 1);
        for (reserved, permits) in [
            (reserve(&limiter, "bob", 3), 3),
            (now(limiter.take_up_to(&"bob".into(), Cost::of(9))), 1),
            (now(limiter.charge(&"bob".into(), Cost::of(2))), 2),
            (reserve(&limiter, "bob", 1), 0),
        ] {
            assert_eq!(
                (reserved.permits(), reserved.decision().source()),
                (permits, Source::Local)
            );
        }
        let later = now(limiter.reserve(key, Cost::of(2), Duration::from_secs(60)));
        assert_eq!(later.delay(), Some(Duration::from_secs(15)));
        for key in ["alice", "bob"] {
            assert_eq!(block_on(limiter.reset(&key.into())).unwrap_err().kind(), kind);
        }
    }
    assert_eq!(stored.peek("alice").remaining(), 10);
}

/// With such a limiter in memory, a mistake in the settings would look like an outage.
#[test]
fn an_error_that_is_not_the_stores_is_returned() {
    let World { limiter, store, local, .. } = world("10/min", "4/min");
    store.fail_with(Some(Error::new(ErrorKind::InvalidSetting, "no secret")));
    let key = &"alice".into();
    let is_returned = |error: Error| assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    is_returned(block_on(limiter.check(key)).unwrap_err());
    is_returned(block_on(limiter.peek(key)).unwrap_err());
    is_returned(block_on(limiter.charge(key, Cost::ONE)).unwrap_err());
    is_returned(block_on(decide(&[Demand::new(&limiter, "alice", Cost::ONE)])).unwrap_err());
    assert_eq!(local.peek("alice").remaining(), 4);
}

#[test]
fn the_stores_error_is_returned_if_both_fail() {
    let (store, other) = (world("10/min", "1/min").store, world("10/min", "1/min").store);
    store.set_failing(true);
    other.fail_with(Some(Error::new(ErrorKind::Unexpected, "it broke, too")));
    let limiter = Fallback::new(store).with(other.clone());
    let error = block_on(limiter.check(&"alice".into())).unwrap_err();
    assert_eq!((error.kind(), other.calls()), (ErrorKind::Unavailable, 1));
}

#[test]
fn a_refund_goes_where_the_permits_were_charged() {
    let world = world("10/min", "10/min");
    let of_store = || reserve(&world.limiter, "alice", 4).into_receipt().unwrap();
    let (one, other) = (of_store(), of_store());
    assert_eq!(world.left("alice"), (2, 2));
    assert_eq!(refund(&world.limiter, one.keep(1)), 3);
    assert_eq!((world.left("alice"), world.store.refunds()), ((5, 5), 1));

    world.store.set_failing(true);
    let of_local = reserve(&world.limiter, "alice", 5).into_receipt().unwrap();
    assert_eq!(world.left("alice"), (5, 0));
    assert_eq!(refund(&world.limiter, of_local.keep(2)), 3);
    assert_eq!(world.left("alice"), (5, 3));
    // What the store does not know to be given back is not given back in memory.
    let error = block_on(world.limiter.refund(other)).unwrap_err();
    assert_eq!((error.kind(), world.left("alice")), (ErrorKind::Unavailable, (5, 3)));
    assert_eq!(world.store.refunds(), 1);
}

/// The share had room for one of four permits, so one of two that are kept is its own.
#[test]
fn a_refund_in_memory_gives_back_what_was_charged_there() {
    let world = world("10/min", "1/min");
    let receipt = reserve(&world.limiter, "alice", 4).into_receipt().unwrap();
    assert_eq!(receipt.permits(), 4);
    assert_eq!(world.left("alice"), (6, 0));
    assert_eq!(refund(&world.limiter, receipt.keep(2)), 2);
    assert_eq!(world.left("alice"), (8, 1));
    let foreign = reserve(&self::world("10/min", "10/min").limiter, "alice", 4);
    assert_eq!(refund(&world.limiter, foreign.into_receipt().unwrap()), 0);
    assert_eq!(world.left("alice"), (8, 1));
}

#[test]
fn a_reset_is_done_in_memory_in_any_case() {
    let world = world("10/min", "10/min");
    assert!(reserve(&world.limiter, "alice", 10).is_admitted());
    now(world.limiter.reset(&"alice".into()));
    assert_eq!(world.left("alice"), (10, 10));
    assert!(reserve(&world.limiter, "alice", 10).is_admitted());
    world.store.set_failing(true);
    assert!(block_on(world.limiter.reset(&"alice".into())).is_err());
    assert_eq!(world.left("alice"), (0, 10));
}

#[test]
fn identity_shard_policy_and_name_are_the_stores() {
    let store = Fake::new(policy("10/min"), || {
        LimiterFuture::ready(Err(Error::new(ErrorKind::Unavailable, "no connection")))
    });
    let limiter = Fallback::new(store.clone());
    assert_eq!((limiter.id(), limiter.shard(&"alice".into())), (store.id(), 1));
    assert_eq!((limiter.policy().name(), Limiter::store(&limiter)), ("api", "other"));
    assert!(limiter.preview(&"alice".into(), Cost::ONE).is_none());
    assert_eq!(check(&limiter, "alice").remaining(), 9, "the policy of the store");
}

/// A cached denial is ready at once, and takes no allocation.
#[test]
fn a_refusal_that_is_ready_stays_ready() {
    let usage = Usage::new(10, 0, Duration::from_secs(60));
    let refused = Decision::refused(usage, Some(Duration::from_secs(6))).with_source(Source::Cache);
    let limiter =
        Fallback::new(Fake::new(policy("10/min"), move || LimiterFuture::ready(Ok(refused))));
    let checked = limiter.check(&"alice".into());
    assert_eq!(checked.as_ready().unwrap().as_ref().unwrap(), &refused);
}

/// Such as one by a lease.
#[test]
fn an_admission_that_is_ready_allocates_nothing_and_is_charged_in_memory() {
    let World { stored, local, .. } = world("10/min", "3/min");
    let (limiter, key) = (Fallback::new(stored).with(local.clone()), Key::from("alice"));
    let ready = |cost| limiter.check_n(&key, Cost::of(cost)).take_ready();
    assert!(ready(1).unwrap().unwrap().is_admitted());
    let count = allocation_counter::measure(|| assert!(ready(1).is_some())).count_total;
    assert_eq!((count, local.peek("alice").remaining()), (0, 1));
    // More than fits in memory uses up what is left there.
    assert!(now(limiter.check_n(&key, Cost::of(2))).is_admitted());
    assert_eq!(local.peek("alice").remaining(), 0);
    assert!(ready(1).unwrap().unwrap().is_admitted());
}

#[test]
fn a_share_is_the_policy_divided_by_the_processes() {
    let World { limiter, store, .. } = world("12/min", "1/min");
    let limiter = limiter.sharing(among(4)).unwrap();
    let premium = limiter.with_policy(&policy("120/min")).unwrap();
    let sibling = limiter.sibling(&policy("8/h by fixed-window")).unwrap();
    let small = limiter.sibling_with_capacity(&policy("16/h"), 1).unwrap();
    let bursts = || {
        [&limiter as &dyn Limiter, &premium, &sibling, &small].map(|it| check(it, "alice").burst())
    };
    assert_eq!(bursts(), [12, 120, 8, 16]);
    store.set_failing(true);
    assert_eq!(bursts(), [3, 30, 2, 4]);
    // The number of processes changes while they run, for all handles and siblings.
    limiter.set_processes(among(2));
    assert_eq!(bursts(), [6, 60, 4, 8]);
    // What was charged before stays charged.
    assert!(now(limiter.peek(&"alice".into())).used() > 0);
    let has_room = (0..100).all(|key| check(&small, &key.to_string()).is_admitted());
    assert!(!has_room, "the sibling in memory has the capacity, too");
}

#[test]
fn a_share_that_cannot_be_served_is_an_error_or_leaves_the_previous_one() {
    let World { limiter, store, .. } = world("100000/s horizon 20d", "1/min");
    store.set_failing(true);
    let error = limiter.clone().sharing(among(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    let limiter = limiter.sharing(among(4)).unwrap();
    limiter.set_processes(among(3));
    assert_eq!(check(&limiter, "alice").burst(), 25_000);
    assert!(limiter.with_policy(&policy("200000/s horizon 20d")).is_err());
}

#[test]
fn a_limiter_with_a_policy_of_its_own_follows_other_policies() {
    let World { limiter, store, .. } = world("12/min", "5/min");
    let premium = limiter.with_policy(&policy("120/min")).unwrap();
    store.set_failing(true);
    assert_eq!([&limiter as &dyn Limiter, &premium].map(|it| check(it, "a").burst()), [5, 120]);
}

#[test]
fn handles_and_clones_have_the_same_states() {
    let world = world("10/min", "10/min");
    let handle = world.limiter.with_policy(&policy("10/min")).unwrap();
    assert_eq!(handle.id(), world.limiter.id());
    let receipt = reserve(&handle, "alice", 4).into_receipt().unwrap();
    assert_eq!(check(&world.limiter.clone(), "alice").remaining(), 5);
    assert_eq!((refund(&world.limiter, receipt), world.left("alice")), (4, (9, 9)));
    let sibling = world.limiter.sibling(&policy("10/min")).unwrap();
    assert!(sibling.id() != handle.id() && sibling.id().shares_store_with(handle.id()));
    assert_eq!(check(&sibling, "alice").remaining(), 9);
}

#[test]
fn callers_wait_by_the_store_or_in_memory() {
    let world = world("2/min", "2/min");
    let acquire = |limiter: &dyn WaitingLimiter, within| {
        limiter.acquire(&"alice".into(), Cost::ONE, Some(Duration::from_secs(within)))
    };
    let receipt = now(acquire(&world.limiter, 0)).into_receipt().unwrap();
    assert_eq!(world.left("alice"), (1, 1));
    assert_eq!((refund(&world.limiter, receipt), world.left("alice")), (1, (2, 2)));
    assert_eq!(reserve(&world.limiter, "alice", 2).permits(), 2);

    world.store.set_failing(true);
    let refused = now(acquire(&world.limiter, 20));
    assert_eq!((refused.is_admitted(), refused.decision().source()), (false, Source::Local));
    let premium = world.limiter.waiting_with_policy(&policy("4/min")).unwrap();
    let shared: Arc<dyn WaitingLimiter> =
        Arc::new(world.limiter.clone().sharing(among(2)).unwrap());
    for (limiter, wait) in [(&premium, 15), (&shared, 60)] {
        let refused = soon(&mut acquire(limiter, wait - 1)).unwrap();
        assert!(!refused.is_admitted());
        let mut waiting = acquire(limiter, wait);
        assert!(soon(&mut waiting).is_none());
        world.clock.advance(Duration::from_secs(wait));
        let acquired = soon(&mut waiting).unwrap();
        assert_eq!(
            (acquired.delay(), acquired.decision().source()),
            (Some(Duration::ZERO), Source::Local)
        );
    }
}
