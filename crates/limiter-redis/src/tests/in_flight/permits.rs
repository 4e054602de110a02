//! Permits that are taken, renewed and given back.

use std::{
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use futures::FutureExt;
use limiter_core::{ErrorKind, InFlightPermit, LimiterFuture, Occupancy, Source};

use super::world::{Fate, World};
use crate::tests::events::log::Log;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_short_request_costs_two_calls() {
    let world = World::new();
    let limiter = world.limiter(3);
    for _ in 0..10 {
        let permit = world.enter(&limiter, "alice");
        world.advance(Duration::from_millis(9_900));
        assert!(permit.can_be_lost() && !permit.is_lost());
        drop(permit);
        world.run();
        assert_eq!(world.calls(), ["enter", "leave"]);
    }
    assert_eq!((limiter.held(), world.members(&limiter, "alice")), (0, 0));
    let counters = limiter.counters();
    assert_eq!((counters.admitted, counters.renewals), (10, 0));
    // Nothing is held, so no task waits.
    world.advance(10 * SECOND);
    assert_eq!(world.store.tasks(), 0);
    assert!(world.calls().is_empty() && world.events().is_empty());
}

#[test]
fn as_many_are_admitted_as_the_limit() {
    let world = World::new();
    let limiters = [world.limiter(3), world.limiter(3)];
    let permits: Vec<_> =
        [0, 1, 0].iter().map(|process| world.enter(&limiters[*process], "alice")).collect();
    for limiter in &limiters {
        let refused = world.ask(limiter.enter("alice")).unwrap();
        assert_eq!((refused.is_admitted(), refused.occupancy()), (false, Occupancy::new(3, 3)));
        assert_eq!(limiter.counters().refused, 1);
        // A plan's limit is an argument of the call.
        let admitted = world.ask(limiter.enter_under("alice", 4)).unwrap();
        assert_eq!((admitted.is_admitted(), admitted.occupancy()), (true, Occupancy::new(4, 4)));
        drop(admitted);
        world.run();
        let none = world.ask(limiter.enter_under("alice", 0)).unwrap();
        assert_eq!((none.is_admitted(), none.occupancy()), (false, Occupancy::new(3, 0)));
        let peeked = world.ask(limiter.peek("alice")).unwrap();
        assert_eq!((peeked.held(), peeked.has_room(), peeked.source()), (3, false, Source::State));
        assert!(world.ask(limiter.enter("bob")).unwrap().is_admitted());
        world.run();
    }
    drop(permits);
    world.run();
    assert_eq!(world.ask(limiters[1].peek("alice")).unwrap().held(), 0);
}

#[test]
fn permits_that_are_dropped_together_are_given_back_in_calls_of_200() {
    let world = World::new();
    let limiter = world.limiter(1_000);
    let permits: Vec<_> =
        (0..300_u32).map(|n| world.enter(&limiter, ["a", "b", "c"][n as usize % 3])).collect();
    assert_eq!((limiter.held(), world.calls().len()), (300, 300));
    drop(permits);
    world.run();
    assert_eq!(world.calls(), ["leave"; 2]);
    assert_eq!((limiter.held(), world.members(&limiter, "a")), (0, 0));
}

#[test]
fn long_requests_are_renewed_three_times_an_expiry_in_one_call() {
    let world = World::new();
    let limiter = world.limiter(1_000);
    let mut permits = Vec::new();
    for n in 0..100_u32 {
        permits.push(world.enter(&limiter, ["a", "b", "c", "d"][n as usize % 4]));
        world.advance(Duration::from_millis(170));
    }
    world.calls();
    world.advance(10 * SECOND);
    for _ in 0..5 {
        world.calls();
        world.advance(30 * SECOND);
        assert_eq!(world.calls(), ["renew"; 3]);
        assert!(permits.iter().all(|permit| !permit.is_lost()));
    }
    assert_eq!(world.members(&limiter, "a"), 25);
    drop(permits);
    world.run();
    assert_eq!(world.calls(), ["leave"]);
    assert_eq!(world.members(&limiter, "a"), 0);
    assert!(world.events().is_empty());
}

#[test]
fn in_a_cluster_each_slot_has_a_call() {
    let world = World::cluster();
    let limiter = world.limiter(10);
    let permits: Vec<_> =
        ["a", "b", "a", "c"].iter().map(|key| world.enter(&limiter, key)).collect();
    world.calls();
    world.advance(10 * SECOND);
    assert_eq!(world.calls(), ["renew"; 3]);
    drop(permits);
    world.run();
    assert_eq!(world.calls(), ["leave"; 3]);
    assert_eq!(limiter.counters().releases_failed, 0);
}

#[test]
fn a_node_of_a_cluster_behind_a_plain_address_gets_calls_of_one_slot() {
    let log = Log::start();
    let world = World::new();
    let limiter = world.limiter(10);
    let permits: Vec<_> = ["a", "b"].iter().map(|key| world.enter(&limiter, key)).collect();
    let mut is_first = true;
    world.fate(move |name| match std::mem::take(&mut is_first) {
        true if name == "renew" => Fate::Refused("CROSSSLOT Keys"),
        _ => Fate::Served,
    });
    world.calls();
    world.advance(10 * SECOND);
    assert_eq!(world.calls(), ["renew"; 3]);
    world.advance(10 * SECOND);
    assert_eq!(world.calls(), ["renew"; 2]);
    drop(permits);
    world.run();
    assert_eq!(world.calls(), ["leave"; 2]);
    assert_eq!(world.members(&limiter, "a") + world.members(&limiter, "b"), 0);
    assert!(is_logged_once(&log), "{:?}", log.lines());
}

/// Nothing was logged if requests in flight were the first to be refused.
fn is_logged_once(log: &Log) -> bool {
    let lines = log.lines();
    lines.len() == 1 && lines[0].contains("WARN") && lines[0].contains("use redis-cluster://")
}

#[test]
fn a_permit_that_others_have_replaced_is_lost() {
    let world = World::new();
    let (limiter, other) = (world.limiter(1), world.limiter(1));
    let permit = world.enter(&limiter, "alice");
    let mut lost = Box::pin(permit.lost());
    world.ask(other.reset("alice")).unwrap();
    let taken = world.enter(&other, "alice");
    world.advance(9 * SECOND);
    assert!(!permit.is_lost() && lost.as_mut().now_or_never().is_none());
    world.advance(SECOND);
    assert!(permit.is_lost());
    assert!(lost.now_or_never().is_some() && permit.lost().now_or_never().is_some());
    assert_eq!((world.events(), limiter.counters().permits_lost), (vec!["permit_lost".into()], 1));
    world.calls();
    drop(permit);
    world.advance(SECOND);
    // It is not given back, because it is not there.
    assert!(!world.calls().contains(&"leave"));
    assert_eq!((limiter.held(), limiter.counters().permits_lost), (0, 1));
    assert!(!taken.is_lost());
}

#[test]
fn permits_that_the_store_has_lost_are_restored() {
    let world = World::new();
    let limiter = world.limiter(2);
    let permits = [(); 2].map(|()| world.enter(&limiter, "alice"));
    world.command(&["FLUSHALL"]);
    world.advance(10 * SECOND);
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    assert_eq!((world.members(&limiter, "alice"), limiter.counters().permits_restored), (2, 2));
    assert_eq!(world.events(), ["permits_restored"]);
}

#[test]
fn a_release_follows_an_outstanding_renewal() {
    let (world, limiter, permit) = World::with_permit();
    world.fate_of("renew", Fate::Late(Duration::from_millis(600)));
    world.calls();
    world.advance(10 * SECOND + Duration::from_millis(100));
    drop(permit);
    // Else a process that ends would leave the permit until it expires.
    let draining = limiter.clone();
    let drained = async move { draining.drain(SECOND).await };
    let drained = world.start(LimiterFuture::pending(drained));
    world.advance(Duration::from_millis(400));
    assert!(drained.take().is_none());
    assert_eq!((world.calls(), world.members(&limiter, "alice")), (vec!["renew"], 1));
    world.advance(Duration::from_millis(200));
    assert_eq!((world.calls(), world.members(&limiter, "alice")), (vec!["leave"], 0));
    assert!(drained.take().unwrap().is_ok());
    assert_eq!(limiter.held(), 0);
    // It is not renewed again.
    world.advance(30 * SECOND);
    assert!(world.calls().is_empty());
}

#[test]
fn a_caller_that_leaves_leaves_no_permit() {
    let world = World::new();
    let limiter = world.limiter(1);
    // Before the request was sent.
    let entry = limiter.enter("alice");
    drop(entry);
    let mut entry = Box::pin(limiter.enter("alice"));
    assert!(entry.as_mut().now_or_never().is_none());
    drop(entry);
    world.run();
    assert!(world.calls().is_empty());
    // After it was sent.
    world.fate_of("enter", Fate::Late(Duration::from_millis(20)));
    let mut entry = Box::pin(limiter.enter("alice"));
    assert!(entry.as_mut().now_or_never().is_none());
    world.run();
    assert_eq!(world.members(&limiter, "alice"), 1);
    drop(entry);
    world.advance(Duration::from_millis(30));
    assert_eq!(world.calls(), ["enter", "leave"]);
    assert_eq!((world.members(&limiter, "alice"), limiter.held()), (0, 0));
    assert_eq!(limiter.counters().permits_lost, 0);
}

#[test]
fn a_reset_frees_the_key() {
    let (world, limiter, permit) = World::with_permit();
    world.ask(limiter.reset("alice")).unwrap();
    let other = world.enter(&limiter, "alice");
    drop(permit);
    world.run();
    // What is given back is not the permit of another request.
    assert_eq!(world.members(&limiter, "alice"), 1);
    drop(other);
}

#[test]
fn a_key_that_is_no_permits_is_an_unexpected_error() {
    let world = World::new();
    let limiter = world.limiter(1);
    let key = String::from_utf8(limiter.stored_key("alice").unwrap()).unwrap();
    world.command(&["SET", &key, "text"]);
    let error = world.ask(limiter.enter("alice")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    world.command(&["DEL", &key]);
    world.command(&["ZADD", &key, "9000000000000000", "foreign"]);
    let error = world.ask(limiter.enter("alice")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(error.to_string().contains("is not a permit"), "{error}");
}

/// A client at its limit cost a call for each request.
#[test]
fn a_full_key_is_asked_for_ten_times_a_second() {
    let world = World::new();
    let (limiter, other) = (world.limiter(2), world.limiter(2));
    let permits = [world.enter(&limiter, "alice"), world.enter(&other, "alice")];
    world.calls();
    for _ in 0..1_000 {
        let refused = world.ask(limiter.enter("alice")).unwrap();
        assert_eq!((refused.is_admitted(), refused.occupancy().held()), (false, 2));
        world.advance(Duration::from_millis(1));
    }
    assert!(world.calls().len() <= 10);
    let counters = limiter.counters();
    assert_eq!((counters.refused + counters.cached, counters.admitted), (1_000, 1));
    // A larger limit is another question, and so is another key.
    assert!(world.ask(limiter.enter_under("alice", 3)).unwrap().is_admitted());
    assert!(world.ask(limiter.enter("bob")).unwrap().is_admitted());
    // What this process gives back is taken at once.
    let [own, of_other] = permits;
    assert!(!world.ask(limiter.enter("alice")).unwrap().is_admitted());
    drop(own);
    world.run();
    let again = world.enter(&limiter, "alice");
    // What another one gives back, within 100 ms.
    assert!(!world.ask(limiter.enter("alice")).unwrap().is_admitted());
    drop(of_other);
    world.advance(Duration::from_millis(100));
    assert!(world.ask(limiter.enter("alice")).unwrap().is_admitted());
    drop(again);
}

#[test]
fn a_refusal_from_before_a_permit_came_back_is_not_cached() {
    let (world, limiter, permit) = World::with_permit();
    world.fate(|_| Fate::Late(Duration::from_millis(5)));
    let refused = world.start(limiter.enter("alice"));
    drop(permit);
    world.advance(Duration::from_millis(10));
    assert!(!refused.take().unwrap().unwrap().is_admitted());
    let entry = world.start(limiter.enter("alice"));
    world.advance(Duration::from_millis(10));
    assert!(entry.take().unwrap().unwrap().is_admitted());
}

/// Each was a call of its own, so that 1,000 at once passed their deadline.
#[test]
fn permits_that_are_taken_together_are_taken_in_calls_of_32() {
    let world = World::new();
    let limiter = world.limiter(600);
    let foreign = String::from_utf8(limiter.stored_key("foreign").unwrap()).unwrap();
    world.command(&["SET", &foreign, "1"]);
    let key = |place: usize| match place {
        500 => "foreign",
        place => ["alice", "bob"][place % 2],
    };
    let entries: Vec<_> = (0..1_000).map(|place| limiter.enter(key(place))).collect();
    let entries = world.store.block_on(futures::future::join_all(entries));
    let calls = world.calls();
    let enters = calls.iter().filter(|name| **name == "enter").count();
    assert_eq!(enters, 1_000_usize.div_ceil(32));
    // One of a foreign value fails alone.
    let failed: Vec<_> = entries.iter().filter_map(|entry| entry.as_ref().err()).collect();
    assert_eq!((failed.len(), failed[0].kind()), (1, ErrorKind::Unexpected));
    assert!(failed[0].to_string().contains("ZCARD: WRONGTYPE"), "{}", failed[0]);
    assert_eq!(limiter.held(), 999);
    assert_eq!(world.members(&limiter, "alice") + world.members(&limiter, "bob"), 999);
    drop(entries);
    world.advance(SECOND);
    assert_eq!(world.members(&limiter, "alice") + world.members(&limiter, "bob"), 0);
}

#[test]
fn a_node_of_a_cluster_behind_a_plain_address_gets_a_call_for_each_permit() {
    let log = Log::start();
    let world = World::new();
    let limiter = world.limiter(10);
    let mut is_first = true;
    world.fate(move |_| match std::mem::take(&mut is_first) {
        true => Fate::Refused("CROSSSLOT Keys"),
        false => Fate::Served,
    });
    for calls in [1 + 3, 3] {
        let entries: Vec<_> = ["a", "b", "c"].map(|key| limiter.enter(key)).into();
        let entries = world.store.block_on(futures::future::try_join_all(entries)).unwrap();
        assert!(entries.iter().all(limiter_core::Entry::is_admitted));
        assert_eq!(world.calls().len(), calls);
        drop(entries);
        world.run();
        world.calls();
    }
    assert!(is_logged_once(&log), "{:?}", log.lines());
}

/// A waker that gives the permit back, as a task does that is dropped when it is woken, waited for itself.
#[test]
fn no_waker_of_a_lost_permit_is_called_under_a_lock() {
    struct Dropping(Mutex<Option<InFlightPermit>>);

    impl Wake for Dropping {
        fn wake(self: Arc<Self>) {
            let permit = self.0.lock().unwrap().take();
            drop(permit);
        }
    }

    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        // By a reply, and by the clock.
        for is_replied in [true, false] {
            let world = World::new();
            let (limiter, other) = (world.limiter(1), world.limiter(1));
            let permit = world.enter(&limiter, "alice");
            let mut lost = pin!(permit.lost());
            let waker = Waker::from(Arc::new(Dropping(Mutex::new(Some(permit)))));
            assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            let key = String::from_utf8(limiter.stored_key("alice").unwrap()).unwrap();
            world.command(&["DEL", &key]);
            let _taken = world.enter(&other, "alice");
            if !is_replied {
                world.fate_of("renew", Fate::LostRequest);
            }
            world.advance(31 * SECOND);
            assert_eq!(limiter.held(), 0, "{is_replied}");
        }
        done.send(()).unwrap();
    });
    assert_eq!(outcome.recv_timeout(Duration::from_secs(20)), Ok(()));
}
