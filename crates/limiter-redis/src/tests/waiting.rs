//! Callers that wait for a permit: in their order, and what becomes of the place of one that leaves.

use std::time::Duration;

use futures::FutureExt as _;
use limiter_core::{Cost, Policy, Quota};

use super::{
    client::Fate,
    store::{Store, policy, unique},
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn waiters_are_admitted_one_by_one_in_their_order() {
    let store = Store::new();
    // One each 50 ms.
    let queue = Policy::leaky_queue("test", 100, Quota::per_second(20).with_burst(1));
    let limiter = store.limiter_of(&unique(), &queue, 0);
    let waiting = [(); 5].map(|()| store.start(limiter.acquire("key", Cost::ONE, None)));
    for (place, asked) in waiting.iter().enumerate() {
        let acquired = asked.take().expect("it is its turn").unwrap();
        assert_eq!(acquired.delay(), Some(Duration::ZERO));
        store.pass(ms(49));
        assert!(waiting.iter().skip(place + 1).all(|next| next.take().is_none()));
        store.pass(ms(1));
    }
}

#[test]
fn who_does_not_wait_any_longer_gives_the_place_back() {
    for (left, takes, is_polled) in [
        ("before the reply arrives", ms(5), false),
        ("before it has read the reply", Duration::ZERO, false),
        ("while it waits", Duration::ZERO, true),
    ] {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &policy("1/min"), 0);
        let reset_after = || store.block_on(limiter.peek("key")).unwrap().reset_after();
        assert!(store.block_on(limiter.check("key")).unwrap().is_admitted());
        let before = reset_after();
        store.client.set_fate(move |_| Fate::Late(takes));
        let mut acquire = limiter.acquire("key", Cost::ONE, None);
        assert!((&mut acquire).now_or_never().is_none());
        store.run();
        store.client.set_fate(|_| Fate::Served);
        if is_polled {
            assert!((&mut acquire).now_or_never().is_none());
        }
        assert!(reset_after() > before, "it has a place");
        drop(acquire);
        store.pass(ms(10));
        assert!(reset_after() < before, "{left}");
    }
}

#[test]
fn who_can_not_have_it_in_time_is_refused_at_once() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &policy("1/day"), 0);
    for (cost, within, is_admitted) in [
        (1, Some(Duration::ZERO), true),
        (1, Some(Duration::from_secs(3_600)), false),
        (2, None, false),
    ] {
        let acquired = store.block_on(limiter.acquire("key", Cost::of(cost), within)).unwrap();
        assert_eq!(acquired.is_admitted(), is_admitted, "{cost} within {within:?}");
    }
}

/// What no caller waits for is counted, and is sent before a process ends.
#[test]
fn what_is_under_way_is_counted_and_is_sent_before_the_end() {
    let store = Store::new();
    let limiter = store.limiter_with(&unique(), &policy("100/day"), |it| it.deadline(ms(50)));
    let reserve = || store.block_on(limiter.reserve("key", Cost::ONE, Duration::ZERO)).unwrap();
    let receipts: Vec<_> = (0..100).map(|_| reserve().into_receipt().unwrap()).collect();
    for receipt in receipts {
        // It is begun, and its caller leaves.
        assert!(limiter.refund(receipt).now_or_never().is_none());
    }
    store.block_on(limiter.drain(ms(1_000))).unwrap();
    assert_eq!(store.block_on(limiter.peek("key")).unwrap().used(), 0);

    let receipt = reserve().into_receipt().unwrap();
    store.client.set_fate(|_| Fate::LostRequest);
    assert!(limiter.refund(receipt).now_or_never().is_none());
    let error = store.settle(limiter.drain(ms(20))).unwrap_err();
    assert!(error.to_string().contains("1 operation"), "{error}");
    assert_eq!(error.kind(), limiter_core::ErrorKind::Undetermined);
    store.settle(limiter.drain(ms(1_000))).unwrap();
    assert_eq!(limiter.counters().refunds_failed, 1);
}
