//! A server whose memory is full, which keeps all keys. limiter-rig tests the same on a real one.

use std::{sync::Arc, time::Duration};

use futures::future::join;
use limiter_core::Cost;
use limiter_double::Server;

use super::{
    client::Client,
    in_flight::World,
    store::{Store, policy, unique},
};
use crate::{CallError, Fault, RedisLimiter};

/// A policy for each script that charges.
const POLICIES: [&str; 7] = [
    "2/min",
    "2/min by fixed-window",
    "2/min by sliding-counter",
    "2/min by sliding-log",
    "2/min by sub-windows 6 slots",
    "2/min, 20/h",
    "2/min, 20/h by sliding-log",
];

/// Returns a limiter that asks the server each time.
fn limiter(store: &Arc<Store>, text: &str) -> RedisLimiter<Client> {
    store.limiter_of(&unique(), &policy(text), 0)
}

fn has_room_for(bytes: usize) -> impl Fn(&mut Server) {
    move |server| server.set_max_memory(Some(bytes))
}

#[test]
fn fresh_keys_take_no_more_memory() {
    for text in POLICIES {
        let store = Store::new();
        store.client.set_up(has_room_for(20_000));
        let limiter = limiter(&store, text);
        let mut admitted = 0;
        for number in 0..1_000 {
            match store.settle(limiter.check(&*format!("key-{number}"))) {
                Ok(decision) => admitted += u32::from(decision.is_admitted()),
                Err(error) => {
                    let fault = CallError::of(&error).unwrap().fault();
                    assert_eq!(fault, Fault::NotExecuted, "{text}: {error}");
                }
            }
        }
        assert!((10..500).contains(&admitted), "{text}: {admitted}");
        store.client.set_up(|server| assert!(server.used_memory() < 21_000, "{text}"));
    }
}

/// One fresh key that the server refuses does not decide about the key beside it in the batch. An error reply is a reply, so
/// that no number of them opens the circuit breaker.
#[test]
fn a_key_at_its_limit_is_refused_beside_a_fresh_one() {
    for text in POLICIES {
        let store = Store::new();
        let limiter = limiter(&store, text);
        for _ in 0..2 {
            assert!(store.settle(limiter.check("full")).unwrap().is_admitted());
        }
        store.client.set_up(has_room_for(0));
        drop(store.client.sent());
        let mut refused = 0;
        for number in 0..50 {
            let fresh = format!("fresh-{number}");
            // Before the fresh key, and behind it.
            let (full, fresh) = if number % 2 == 0 {
                store.settle(join(limiter.check("full"), limiter.check(&*fresh)))
            } else {
                let (fresh, full) =
                    store.settle(join(limiter.check(&*fresh), limiter.check("full")));
                (full, fresh)
            };
            refused += u32::from(full.is_ok_and(|decision| !decision.is_admitted()));
            let error = fresh.unwrap_err();
            assert_eq!(CallError::of(&error).unwrap().fault(), Fault::NotExecuted, "{error}");
            store.pass(Duration::from_millis(30));
        }
        assert_eq!((refused, limiter.counters().short_circuited), (50, 0), "{text}");
        // Each pair is one call, and the fresh key is tried once more.
        assert_eq!(store.client.sent().len(), 100, "{text}");
    }
}

#[test]
fn permits_in_flight_are_renewed() {
    let world = World::new();
    let limiter = world.limiter(8);
    let permits: Vec<_> = (0..8).map(|_| world.enter(&limiter, "alice")).collect();
    world.store.client.set_up(has_room_for(0));
    // Each would have ended twice.
    for _ in 0..70 {
        world.advance(Duration::from_secs(1));
    }
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    assert_eq!(world.members(&limiter, "alice"), 8);
}

/// A state that no charge can have left is full. Where it can't be repaired, its refusal was an error, so that a caller which
/// forwards on errors had no limit.
#[test]
fn an_impossible_state_is_refused_and_repaired_when_there_is_memory() {
    for text in POLICIES {
        for lease in [false, true] {
            let store = Store::new();
            let limiter = store.limiter_with(&unique(), &policy(text), |it| it.lease(lease));
            assert!(store.settle(limiter.check("alice")).unwrap().is_admitted());
            for key in limiter.stored_keys("alice").unwrap() {
                for identity in limiter.policy().identities().iter() {
                    store.client.execute(&[b"HSET", &*key, identity.as_bytes(), b"nonsense"]);
                }
                store.client.execute(&[b"LSET".as_slice(), &key, b"0", b"nonsense"]);
            }
            store.client.set_up(has_room_for(0));
            let refused = store.settle(limiter.check("alice")).unwrap();
            assert!(!refused.is_admitted(), "{text}");
            store.pass(Duration::from_secs(2));
            store.client.set_up(|server| server.set_max_memory(None));
            let wait = store.settle(limiter.check("alice")).unwrap().retry_after().unwrap();
            store.pass(wait);
            assert!(store.settle(limiter.check("alice")).unwrap().is_admitted(), "{text}");
        }
    }
}

/// A refusal removes entries of a log if more than 64 are past. If that is refused, it is a refusal all the same.
#[test]
fn a_refusal_stays_one_if_past_entries_can_not_be_removed() {
    for text in ["200/s by sliding-log", "200/s by sliding-log, 1000/h"] {
        let store = Store::new();
        let limiter = limiter(&store, text);
        for _ in 0..200 {
            assert!(store.settle(limiter.check("alice")).unwrap().is_admitted());
            store.pass(Duration::from_millis(3));
        }
        store.pass(Duration::from_millis(600));
        store.client.set_up(has_room_for(0));
        let refused = store.settle(limiter.check_n("alice", Cost::of(200))).unwrap();
        assert!(!refused.is_admitted(), "{text}");
    }
}

/// The removal of permits that are over is a write that a full memory does not refuse, and behind it nothing is refused. It once
/// was made for each key at its limit, so that the fresh keys of its batch were entered.
#[test]
fn fresh_keys_are_not_entered_beside_one_at_its_limit() {
    let world = World::new();
    let (holder, other) = (world.limiter(1), world.limiter(1));
    let _permit = world.enter(&holder, "full");
    world.store.client.set_up(has_room_for(0));
    let (full, fresh) = world.store.settle(join(other.enter("full"), other.enter("fresh")));
    assert!(!full.unwrap().is_admitted());
    let error = fresh.unwrap_err();
    assert_eq!(CallError::of(&error).unwrap().fault(), Fault::NotExecuted, "{error}");
}
