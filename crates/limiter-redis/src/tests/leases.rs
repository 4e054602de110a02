//! What a process leases: for how long, by how few calls, and how its permits are counted.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use limiter_core::{Clock as _, Cost, Decision, LimiterFuture, Policy, Quota, Source};

use super::{
    client::{Client, Fate},
    store::{Store, policy, unique},
};
use crate::{Counters, RedisLimiter};

const KEY: &str = "key";

/// Of which little recovers during a test.
const SLOW: &str = "100/s burst 100000";

/// Of which nothing recovers.
const WINDOW: &str = "300000/5h by fixed-window";

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn leasing(store: &Store, text: &str) -> RedisLimiter<Client> {
    store.limiter_with(&unique(), &policy(text), |builder| builder.lease(true))
}

fn check(store: &Store, limiter: &RedisLimiter<Client>) -> Decision {
    store.block_on(limiter.check(KEY)).unwrap()
}

fn used(store: &Store, limiter: &RedisLimiter<Client>) -> u64 {
    store.block_on(limiter.peek(KEY)).unwrap().used()
}

/// Checks until there were three leases, and returns how many checks there were.
fn lease(store: &Store, limiter: &RedisLimiter<Client>) -> u64 {
    let mut admitted = 0;
    while limiter.counters().leases < 3 {
        assert!(check(store, limiter).is_admitted());
        store.pass(Duration::from_micros(100));
        admitted += 1;
    }
    admitted
}

/// Gives the leases back, and checks that each of their permits is counted once.
fn drain(store: &Store, limiter: &RedisLimiter<Client>) {
    store.settle(limiter.drain(Duration::from_secs(1))).unwrap();
    let counters = limiter.counters();
    let Counters { lease_permits, leased, lease_unused, lease_returned, .. } = counters;
    assert_eq!(lease_permits, leased + lease_unused + lease_returned, "{counters:?}");
}

#[test]
fn leases_last_for_a_part_of_the_recovery_and_some_policies_have_none() {
    let store = Store::new();
    for (text, lease) in [
        ("1000/s", Some(ms(250))),
        ("1000/s burst 10", None),
        ("1000/s burst 63", None),
        ("1000/s burst 100", Some(ms(25))),
        ("1000/min", Some(ms(1_000))),
        ("900/min", None),
        ("1000/s by leaky-queue depth 10", None),
        ("1000/s by fixed-window", Some(ms(250))),
        ("63/s by fixed-window", None),
        ("1000/s by aligned-window", Some(ms(250))),
        ("1000/s by sliding-counter", Some(ms(250))),
        ("1000/100ms by fixed-window", Some(ms(25))),
        ("1000/19ms by fixed-window", None),
        ("1000/s by sliding-log", None),
        ("1000/s by sub-windows 10 slots", None),
    ] {
        let limiter = leasing(&store, text);
        assert_eq!(limiter.lease(), lease, "{text}");
        assert!(check(&store, &limiter).is_admitted(), "{text}");
    }
}

#[test]
fn one_process_alone_leases_soon_and_within_the_limit() {
    let store = Store::new();
    let limiter = leasing(&store, "5000/s");
    let mut admitted = 0;
    for _ in 0..20_000 {
        admitted += usize::from(check(&store, &limiter).is_admitted());
        store.pass(Duration::from_micros(100));
    }
    let calls = store.client.sent().len();
    // A burst, and what recovers in two seconds.
    assert!((10_000..=15_000).contains(&admitted), "{admitted}");
    // The least that a lease has is 16 permits.
    assert!(calls < admitted / 8, "{calls} calls for {admitted}");
    drain(&store, &limiter);
}

/// Leases arrive after a reset or a drain, and are returned while they are spent.
#[test]
fn each_permit_of_a_lease_is_counted_once() {
    for (text, resets) in [(SLOW, false), (SLOW, true), (WINDOW, false), (WINDOW, true)] {
        let store = Store::new();
        let limiter = leasing(&store, text);
        store.client.set_fate(|_| Fate::Late(ms(3)));
        for step in 0..5_000 {
            drop(store.start(limiter.check(KEY)));
            if resets && step % 70 == 0 {
                drop(store.start(limiter.reset(KEY)));
            }
            if step % 90 == 0 {
                let limiter = limiter.clone();
                let drain = async move { limiter.drain(Duration::from_secs(1)).await };
                drop(store.start(LimiterFuture::pending(drain)));
            }
            store.pass(Duration::from_micros(100));
        }
        store.client.set_fate(|_| Fate::Served);
        store.pass(2 * limiter.lease().unwrap());
        drain(&store, &limiter);
        let counters = limiter.counters();
        let Counters { admitted, leased, lease_unused, lease_returned, .. } = counters;
        assert!(leased > 100 && lease_unused + lease_returned > 100, "{text}: {counters:?}");
        assert_eq!(admitted, 5_000, "{text}");
        if !resets {
            let expected = admitted + lease_unused;
            // By GCRA, 100 recover in a second.
            let used = used(&store, &limiter);
            assert!((expected - 300..=expected).contains(&used), "{text}: {used} {counters:?}");
        }
    }
}

/// Returns a limiter whose request for permits is under way after so many checks, and whose callers have left.
fn asking(checks: usize) -> (Arc<Store>, RedisLimiter<Client>) {
    let store = Store::new();
    let limiter = leasing(&store, "360000/h by fixed-window");
    for _ in 0..checks {
        assert!(check(&store, &limiter).is_admitted());
        store.pass(Duration::from_micros(500));
    }
    store.client.set_fate(|_| Fate::Late(ms(5)));
    store.client.sent();
    while store.client.sent().is_empty() {
        drop(limiter.check(KEY).now_or_never());
        store.run();
    }
    (store, limiter)
}

/// A reply that arrived after a drain was forfeited, so its permits were lost to all processes for a whole window.
#[test]
fn a_drain_gives_back_what_is_under_way() {
    for (checks, leases) in [(7, 0), (400, 1)] {
        let (store, limiter) = asking(checks);
        let before = limiter.counters().leases;
        drain(&store, &limiter);
        store.client.set_fate(|_| Fate::Served);
        let counters = limiter.counters();
        assert_eq!(counters.leases, before + leases);
        assert_eq!(used(&store, &limiter), counters.admitted, "{counters:?}");
    }
}

/// The store has forgotten its charge, so it would be given back of what others were charged for since.
#[test]
fn nothing_is_given_back_of_what_is_under_way_at_a_reset() {
    for checks in [7, 400] {
        let (store, limiter) = asking(checks);
        store.client.set_fate(|_| Fate::Served);
        store.block_on(limiter.reset(KEY)).unwrap();
        store.client.sent();
        drain(&store, &limiter);
        assert!(store.client.sent().is_empty());
    }
}

/// A lease that was to follow was dropped when the next reply brought another one, and its permits were never given back.
#[test]
fn a_lease_that_follows_is_counted_if_another_one_replaces_it() {
    for seed in [24, 29_u64] {
        let store = Store::new();
        let limiter = leasing(&store, "400000/s");
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for step in 0..60 {
            store.client.set_fate(move |_| Fate::Late(ms(if step % 2 == 0 { 1 } else { 3 })));
            for _ in 0..(20 + below(400)) {
                let cost = [3, 5, 7][usize::try_from(below(3)).unwrap()];
                drop(store.start(limiter.check_n(KEY, Cost::of(cost))));
            }
            store.pass(Duration::from_micros(500 + below(2_000)));
            if below(3) == 0 {
                store.pass(ms(4));
            }
        }
        store.client.set_fate(|_| Fate::Served);
        store.pass(ms(100));
        drain(&store, &limiter);
    }
}

#[test]
fn a_limiter_that_is_dropped_gives_its_leases_back() {
    for text in [SLOW, WINDOW] {
        let (store, prefix) = (Store::new(), unique());
        let limiter = store.limiter_with(&prefix, &policy(text), |builder| builder.lease(true));
        let plain = store.limiter_of(&prefix, &policy(text), 0);
        let admitted = lease(&store, &limiter);
        let before = used(&store, &plain);
        drop(limiter);
        store.run();
        let after = used(&store, &plain);
        // By GCRA, a lease after another one is not returned whole.
        let is_whole = text != WINDOW || after == admitted;
        assert!(is_whole && (admitted..before).contains(&after), "{text}: {before}, {after}");
    }
}

/// They were in no counter before their lease ended, so a dashboard of `admitted` fell to zero.
#[test]
fn admissions_by_a_lease_are_counted_at_once() {
    let store = Store::new();
    let limiter = leasing(&store, SLOW);
    let mut leased = 0;
    for admitted in 1..=500 {
        let decision = match admitted % 2 {
            0 => check(&store, &limiter),
            _ => {
                let reserved = limiter.reserve(KEY, Cost::ONE, Duration::ZERO);
                store.block_on(reserved).unwrap().decision()
            }
        };
        assert!(decision.is_admitted());
        leased += u64::from(decision.source() == Source::Lease);
        assert_eq!(limiter.counters().admitted, admitted);
        store.pass(Duration::from_micros(100));
    }
    assert!(leased > 200, "{leased}");
}

#[test]
fn tiers_by_with_policy_have_leases_of_their_own() {
    let store = Store::new();
    let quota = |permits| Quota::new(permits, Duration::from_secs(100)).unwrap();
    let tier = |number: u64| Policy::gcra("test", quota(100_000 + 100 * number));
    let limiter = store.limiter_with(&unique(), &tier(0), |builder| builder.lease(true));
    for number in 1..=30 {
        for _ in 0..50 {
            // As a program that looks up the policy for each request.
            let handle = limiter.with_policy(&tier(number)).unwrap();
            let decision = store.block_on(handle.check(number)).unwrap();
            assert!(decision.is_admitted());
            assert_eq!(decision.burst(), 100_000 + 100 * number);
        }
    }
    assert!(limiter.counters().leases >= 30);
    assert!(store.client.sent().len() < 50 * 30 / 2);
}

/// A window forgets nothing before it ends, so permits that are not spent soon are spent later, or are returned.
#[test]
fn what_is_left_of_a_window_can_be_spent_until_it_ends_and_is_returned_whole() {
    for algorithm in ["fixed-window", "aligned-window", "sliding-counter"] {
        let store = Store::new();
        let limiter = leasing(&store, &format!("300000/5h by {algorithm}"));
        let admitted = lease(&store, &limiter) + 1;
        store.pass(limiter.lease().unwrap() / 2);
        assert_eq!(check(&store, &limiter).source(), Source::Lease, "{algorithm}");
        drain(&store, &limiter);
        let counters = limiter.counters();
        assert!(counters.lease_returned > 0 && counters.lease_unused == 0, "{counters:?}");
        // A check that was asked for ahead may have been for nobody.
        let used = used(&store, &limiter);
        assert!((admitted..=admitted + 2).contains(&used), "{used} used of {admitted}");
    }
}

/// In a full table, a lease that is hardly spent any more makes place for another one, and is returned.
#[test]
fn a_lease_that_is_hardly_spent_makes_place_for_another_key() {
    let store = Store::new();
    let fixed = policy(WINDOW);
    let with = |builder: crate::Builder| builder.lease(true).lease_keys(8);
    let limiter = store.limiter_with(&unique(), &fixed, with);
    let admitted = lease(&store, &limiter);
    let check_others = || {
        for number in 0..8_u64 {
            assert!(store.block_on(limiter.check(number)).unwrap().is_admitted());
        }
        limiter.counters().lease_returned
    };
    assert_eq!(check_others(), 0);
    store.pass(limiter.lease().unwrap());
    check_others();
    drain(&store, &limiter);
    assert!(limiter.counters().lease_returned > 0, "{:?}", limiter.counters());
    let used = used(&store, &limiter);
    assert!((admitted..=admitted + 2).contains(&used), "{used} used of {admitted}");
}

/// A key that is used up is refused by its cached denial, also if it never had a lease.
#[test]
fn a_key_that_is_used_up_is_not_asked_for_at_each_check() {
    let store = Store::new();
    let limiter = leasing(&store, WINDOW);
    assert!(store.block_on(limiter.check_n(KEY, Cost::of(299_997))).unwrap().is_admitted());
    for _ in 0..3 {
        assert!(check(&store, &limiter).is_admitted());
        // Too seldom for a lease.
        store.pass(ms(250));
    }
    store.client.sent();
    for _ in 0..1_000 {
        assert!(!check(&store, &limiter).is_admitted());
        store.pass(ms(1));
    }
    // A denial is cached for a second.
    let calls = store.client.sent().len();
    assert!(calls < 5, "{calls} calls for 1,000 refusals");
}

#[test]
fn what_is_leased_does_not_matter_to_a_charge() {
    let store = Store::new();
    let limiter = leasing(&store, "60000/min");
    lease(&store, &limiter);
    let charged = store.block_on(limiter.charge(KEY, Cost::of(70_000))).unwrap();
    assert_eq!((charged.permits(), charged.decision().source()), (70_000, Source::State));
    let take = |most| {
        let taken = store.block_on(limiter.take_up_to(KEY, Cost::of(most))).unwrap();
        (taken.permits(), taken.decision().source())
    };
    assert_eq!(take(1), (0, Source::State));
    // Of a debt above the burst, a burst at most.
    let refunded = store.block_on(limiter.refund(charged.into_receipt().unwrap())).unwrap();
    assert!((50_000..=60_000).contains(&refunded), "{refunded}");
    assert_eq!(take(10), (10, Source::State));
}

/// The store was asked within a second deadline, after a request for a lease that was refused.
#[test]
fn a_reservation_of_a_leased_key_is_answered_within_one_deadline() {
    let store = Store::new();
    let settings = |it: crate::Builder| it.lease(true).denial_cache(0).deadline(ms(50));
    let limiter = store.limiter_with(&unique(), &policy("1000/s"), settings);
    (0..7).for_each(|_| assert!(check(&store, &limiter).is_admitted()));
    let left = store.block_on(limiter.peek(KEY)).unwrap().remaining();
    drop(store.block_on(limiter.charge(KEY, Cost::of(left + 100))).unwrap());
    store.client.set_fate(|_| Fate::Late(ms(40)));
    let start = store.client.clock().now();
    let reserved = store.settle(limiter.reserve(KEY, Cost::ONE, Duration::from_secs(1)));
    let took = store.client.clock().now().saturating_since(start);
    assert!(took <= ms(53), "{took:?}: {reserved:?}");
}
