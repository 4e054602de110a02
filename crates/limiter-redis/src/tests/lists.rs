//! Lists of demands: all are charged, or none, by one call where their keys are in one slot.

use std::{sync::Arc, time::Duration};

use limiter_core::{
    Clock as _, Cost, Demand, ErrorKind, JointDecision, Key, Limiter, Policy, Quota, Source, decide,
};
use limiter_test::{
    laws::lists::lists_are_charged_all_or_none,
    lists::{Lists, lists},
    properties,
    schedule::Tick,
};
use proptest::test_runner::TestRunner;

use super::{
    client::{Client, Fate},
    store::{Store, unique},
};
use crate::RedisLimiter;

fn laws_hold_on(store: &Arc<Store>, cases: u32) {
    let config = properties::config(file!(), cases);
    let law = |scenario: Lists| {
        let first = Policy::gcra("first", Quota::per_second(1));
        let first = store.limiter_of(&unique(), &first, 0);
        let sibling =
            |policy: &Policy| -> Arc<dyn Limiter> { Arc::new(first.sibling(policy).unwrap()) };
        lists_are_charged_all_or_none(&**store, sibling, &scenario)
    };
    TestRunner::new(config).run(&lists(Tick::Micro, 6), law).unwrap();
}

#[test]
fn laws_of_lists_on_one_server() {
    laws_hold_on(&Store::new(), 48);
}

#[test]
fn laws_of_lists_in_a_cluster() {
    laws_hold_on(&Store::on_cluster(), 12);
}

/// Limiters of requests, tokens and a tenant, with so many cached denials.
struct Three {
    store: Arc<Store>,
    limiters: [RedisLimiter<Client>; 3],
}

impl Three {
    fn on(store: Arc<Store>, denials: usize) -> Self {
        let policy = |text: &str| {
            let (name, quota) = text.split_once(' ').unwrap();
            Policy::parse(name, quota).unwrap()
        };
        let requests = store.limiter_of(&unique(), &policy("requests 10/min"), denials);
        let sibling = |text| requests.sibling(&policy(text)).unwrap();
        let others =
            [sibling("tokens 1000/min by fixed-window"), sibling("tenant 5/h by sliding-log")];
        let [tokens, tenant] = others;
        Self { store, limiters: [requests, tokens, tenant] }
    }

    fn demands<'a>(&'a self, tenant: &'a str, costs: [u64; 3]) -> [Demand<'a>; 3] {
        let [requests, tokens, tenants] = &self.limiters;
        let [one, two, three] = costs.map(Cost::of);
        [
            Demand::new(requests, "alice", one),
            Demand::new(tokens, "alice", two),
            Demand::new(tenants, tenant, three),
        ]
    }

    fn decide(&self, demands: &[Demand<'_>]) -> JointDecision {
        self.store.block_on(decide(demands)).unwrap()
    }

    /// Returns how many calls there were since the last time.
    fn calls(&self) -> usize {
        self.store.client.sent().len()
    }

    fn remaining(&self, tenant: &str) -> [u64; 3] {
        let keys = ["alice", "alice", tenant];
        let mut limiters = self.limiters.iter().zip(keys);
        [(); 3].map(|()| {
            let (limiter, key) = limiters.next().unwrap();
            self.store.block_on(limiter.peek(Key::from(key))).unwrap().remaining()
        })
    }
}

fn refusing(joint: &JointDecision) -> Vec<(usize, Option<u64>)> {
    let seconds = |wait: Duration| wait.as_secs();
    joint.refusing().map(|(index, it)| (index, it.retry_after().map(seconds))).collect()
}

#[test]
fn one_server_decides_on_a_list_by_one_call() {
    let three = Three::on(Store::new(), 0);
    drop(three.decide(&three.demands("acme", [1, 1, 1])));
    three.calls();
    let joint = three.decide(&three.demands("acme", [2, 300, 2]));
    assert!(joint.is_admitted());
    assert_eq!(three.calls(), 1);
    assert_eq!(joint.decision(1).unwrap().remaining(), 699);
    assert_eq!(three.remaining("acme"), [7, 699, 2]);

    let joint = three.decide(&three.demands("acme", [8, 700, 2]));
    assert!(!joint.is_admitted());
    // One request recovers in 6 s, and the tokens do with their window.
    assert_eq!(refusing(&joint), [(0, Some(6)), (1, Some(60))]);
    assert_eq!(joint.retry_after(), Some(Duration::from_secs(60)));
    assert!(joint.decision(2).unwrap().is_admitted());
    assert_eq!(three.remaining("acme"), [7, 699, 2]);
    let never = three.decide(&three.demands("acme", [1, 1, 6]));
    assert_eq!((never.retry_after(), refusing(&never)), (None, vec![(2, None)]));

    for (index, receipt) in three.decide(&three.demands("acme", [1, 99, 1])).into_receipts() {
        let back = three.store.block_on(three.limiters[index].refund(receipt)).unwrap();
        assert_eq!(back, [1, 99, 1][index]);
    }
    assert_eq!(three.remaining("acme"), [7, 699, 2]);
}

#[test]
fn a_demand_that_only_asks_is_never_charged() {
    let three = Three::on(Store::new(), 0);
    let [requests, tokens, _] = &three.limiters;
    let list = |cost| {
        [
            Demand::only_ask(tokens, "alice", Cost::of(cost)),
            Demand::new(requests, "alice", Cost::ONE),
        ]
    };
    assert!(three.decide(&list(1_000)).is_admitted());
    assert_eq!(three.remaining("acme")[..2], [9, 1_000]);
    let _ = three.store.block_on(tokens.check("alice")).unwrap();
    let joint = three.decide(&list(1_000));
    assert_eq!(refusing(&joint), [(0, Some(60))]);
    assert_eq!(three.remaining("acme")[..2], [9, 999]);
}

#[test]
fn a_cached_denial_refuses_a_list_without_a_call() {
    let three = Three::on(Store::new(), 100);
    let list = three.demands("acme", [11, 1, 1]);
    assert_eq!(refusing(&three.decide(&list)), [(0, None)]);
    three.calls();
    let joint = three.decide(&list);
    assert_eq!(joint.decision(0).unwrap().source(), Source::Cache);
    assert!(joint.decision(1).is_none());
    assert_eq!(three.calls(), 0);
    assert_eq!(three.limiters[0].counters().cached, 1);
}

#[test]
fn in_a_cluster_demands_of_one_slot_are_one_call_and_others_are_given_back() {
    let three = Three::on(Store::on_cluster(), 100);
    let decide = |costs| {
        let joint = three.decide(&three.demands("acme", costs));
        (refusing(&joint), three.calls())
    };
    // One for alice's requests and tokens, and one for the tenant.
    assert_eq!(decide([1, 1, 5]), (vec![], 2));
    // These two, and two refunds.
    assert_eq!(decide([1, 1, 1]), (vec![(2, Some(3_600))], 4));
    assert_eq!(three.remaining("acme"), [9, 999, 0]);
    // A list of one slot alone.
    assert_eq!(three.decide(&three.demands("alice", [1, 1, 1])).len(), 3);
}

#[test]
fn leased_permits_are_spent_first_and_are_returned() {
    let store = Store::new();
    let policy = |name, text| Policy::parse(name, text).unwrap();
    let users = policy("users", "1000/s burst 1000");
    let users = store.limiter_with(&unique(), &users, |builder| builder.lease(true));
    let tenants = users.sibling(&policy("tenants", "10/h by sliding-log")).unwrap();
    assert_eq!((users.lease().is_some(), tenants.lease()), (true, None));
    let is_admitted = |tenant: u64| {
        let [one, cost] = [Cost::ONE, Cost::of(tenant)];
        let list = [Demand::new(&tenants, "acme", cost), Demand::new(&users, "alice", one)];
        store.block_on(decide(&list)).unwrap().is_admitted()
    };
    let check = || store.block_on(users.check("alice")).unwrap();
    for _ in 0..100 {
        assert!(check().is_admitted());
    }
    assert!(is_admitted(9));
    let before = check();
    assert_eq!(before.source(), Source::Lease);
    store.client.sent();
    for _ in 0..3 {
        assert!(!is_admitted(5));
    }
    assert!(store.client.sent().iter().all(|sent| sent.script != "refund"));
    // Of this check alone.
    assert_eq!(check().remaining(), before.remaining() - 1);

    while check().is_admitted() {}
    store.client.sent();
    assert!(!is_admitted(1));
    assert!(store.client.sent().is_empty());
    assert_eq!(store.block_on(tenants.peek("acme")).unwrap().remaining(), 1);
}

/// Such a list was an error, while a limiter in memory charges it.
#[test]
fn of_two_demands_on_one_state_the_second_sees_the_first() {
    let store = Store::new();
    let first = store.limiter_of(&unique(), &Policy::gcra("first", Quota::per_second(1)), 0);
    let [one, same] =
        [(); 2].map(|()| first.sibling(&Policy::gcra("second", Quota::per_minute(10))).unwrap());
    let tier = one.with_policy(&Policy::gcra("tier", Quota::per_minute(20))).unwrap();
    // Half of the burst, each.
    for (other, half) in [(same, 5), (tier, 10)] {
        let decide = |cost| {
            let (first, cost) = (Demand::new(&one, "alice", Cost::of(5)), Cost::of(cost));
            store.block_on(decide(&[first, Demand::new(&other, "alice", cost)])).unwrap()
        };
        let left = || store.block_on(one.peek("alice")).unwrap().remaining();
        let refused: Vec<_> = refusing(&decide(half + 1)).iter().map(|(index, _)| *index).collect();
        assert_eq!((refused, left()), (vec![1], 10));
        assert!(decide(half).is_admitted());
        assert_eq!(left(), 0);
        store.block_on(one.reset("alice")).unwrap();
    }
}

#[test]
fn a_sibling_has_another_name() {
    let first = Store::new().limiter_of(&unique(), &Policy::gcra("first", Quota::per_second(1)), 0);
    let error = first.sibling(&Policy::gcra("first", Quota::per_hour(1))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
}

/// A list across slots may give back what it has charged of a key, so the denials that it gets are cached for a short
/// time. Those of other calls are not.
#[test]
fn a_list_across_slots_shortens_no_other_denials() {
    let store = Store::on_cluster();
    let policy = Policy::parse("test", "1/min").unwrap();
    let limiter = store.limiter_of(&unique(), &policy, 100);
    let other = limiter.sibling(&Policy::parse("other", "1/h").unwrap()).unwrap();
    let (one, two) = (Key::from("one"), Key::from("two"));
    let demands = [Demand::new(&limiter, &one, Cost::ONE), Demand::new(&other, &two, Cost::ONE)];
    assert!(store.block_on(decide(&demands)).unwrap().is_admitted());
    for _ in 0..2 {
        let _ = store.block_on(limiter.check("alice")).unwrap();
    }
    drop(store.client.sent());
    store.pass(Duration::from_millis(500));
    assert!(!store.block_on(limiter.check("alice")).unwrap().is_admitted());
    assert!(store.client.sent().is_empty(), "the denial is cached for a second");
}

/// Such a list has charged nothing, also of what it had taken from a lease.
#[test]
fn a_refused_list_decides_and_counts_a_leased_demand_without_its_charge() {
    let store = Store::new();
    let policy = |name, text| Policy::parse(name, text).unwrap();
    let leasing = |it: crate::Builder| it.lease(true).denial_cache(0);
    let limiter = store.limiter_with(&unique(), &policy("leased", "1000/s"), leasing);
    let full = limiter.sibling(&policy("full", "1/h")).unwrap();
    let check = || store.block_on(limiter.check("alice")).unwrap();
    assert!(store.block_on(full.check("alice")).unwrap().is_admitted());
    let mut last = check();
    while last.source() != Source::Lease || last.remaining() < 20 {
        last = check();
    }
    let admitted = limiter.counters().admitted;
    for (cost, full_cost, is_admitted) in [(1, 1, false), (2, 1, false), (2, 0, true)] {
        let full_demand = match full_cost {
            0 => Demand::new(&limiter, "bob", Cost::ONE),
            cost => Demand::new(&full, "alice", Cost::of(cost)),
        };
        let list = [Demand::new(&limiter, "alice", Cost::of(cost)), full_demand];
        let joint = store.block_on(decide(&list)).unwrap();
        let decision = joint.decision(0).unwrap();
        let charged = if is_admitted { cost } else { 0 };
        assert_eq!(
            (joint.is_admitted(), decision.is_admitted(), decision.source()),
            (is_admitted, true, Source::Lease)
        );
        assert_eq!(decision.remaining(), last.remaining() - charged, "{cost}");
        let counted = if is_admitted { 2 } else { 0 };
        assert_eq!(limiter.counters().admitted - admitted, counted, "{cost}");
    }
}

/// Each leased demand waited for a deadline of its own, and so did the call and what was given back.
#[test]
fn a_list_of_leased_keys_is_answered_within_one_deadline() {
    let ms = Duration::from_millis;
    let store = Store::new();
    let policy = |number| Policy::parse(&format!("p{number}"), "1000/s").unwrap();
    let leasing = |it: crate::Builder| it.lease(true).denial_cache(0).deadline(ms(50));
    let first = store.limiter_with(&unique(), &policy(0), leasing);
    let siblings = (1..6).map(|number| first.sibling(&policy(number)).unwrap());
    let limiters: Vec<_> = [first.clone()].into_iter().chain(siblings).collect();
    // The next check of each asks for a lease.
    for limiter in &limiters {
        (0..7).for_each(|_| assert!(store.block_on(limiter.check("alice")).unwrap().is_admitted()));
    }
    store.client.set_fate(move |_| Fate::Late(ms(40)));
    let start = store.client.clock().now();
    let demands: Vec<_> = limiters.iter().map(|it| Demand::new(it, "alice", Cost::ONE)).collect();
    let decided = store.settle(decide(&demands));
    let took = store.client.clock().now().saturating_since(start);
    assert!(took <= ms(53), "{took:?}: {decided:?}");
}
