//! A server whose memory is full, which keeps all keys.

use std::time::Duration;

use futures::future::{join, join_all};
use limiter_redis::{CallError, Fault, RedisInFlight};
use tokio::time::{advance, sleep};

use crate::{client::Double, policy};

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

#[tokio::test(start_paused = true)]
async fn fresh_keys_take_no_more_memory() {
    for text in POLICIES {
        let double = Double::new();
        double.server().set_max_memory(Some(20_000));
        let limiter = double.limiter(&policy(text));
        let mut admitted = 0;
        for number in 0..1_000 {
            match limiter.check(&*format!("key-{number}")).await {
                Ok(decision) => admitted += u32::from(decision.is_admitted()),
                Err(error) => {
                    let fault = CallError::of(&error).unwrap().fault();
                    assert_eq!(fault, Fault::NotExecuted, "{text}: {error}");
                }
            }
        }
        let used = double.server().used_memory();
        assert!((10..500).contains(&admitted) && used < 21_000, "{text}: {admitted}, {used} bytes");
    }
}

/// One fresh key that the server refuses does not decide about the key beside it in the batch.
#[tokio::test(start_paused = true)]
async fn a_key_at_its_limit_is_refused_beside_a_fresh_one() {
    for text in POLICIES {
        let double = Double::new();
        let limiter = double.limiter(&policy(text));
        assert!(limiter.check("full").await.unwrap().is_admitted());
        assert!(limiter.check("full").await.unwrap().is_admitted());
        double.server().set_max_memory(Some(0));
        let before = double.calls();
        let mut refused = 0;
        for number in 0..50 {
            let fresh = format!("fresh-{number}");
            // Behind the fresh key, and before it.
            let (full, fresh) = match number % 2 {
                0 => {
                    let (fresh, full) = join(limiter.check(&*fresh), limiter.check("full")).await;
                    (full, fresh)
                }
                _ => join(limiter.check("full"), limiter.check(&*fresh)).await,
            };
            refused += u32::from(full.is_ok_and(|decision| !decision.is_admitted()));
            let error = fresh.unwrap_err();
            assert_eq!(CallError::of(&error).unwrap().fault(), Fault::NotExecuted, "{error}");
        }
        assert_eq!(refused, 50, "{text}");
        // Each pair is one call, and the fresh one is tried once more.
        assert_eq!(double.calls() - before, 100, "{text}");
    }
}

/// An error reply is a reply, so it does not open the circuit breaker.
#[tokio::test(start_paused = true)]
async fn refused_fresh_keys_leave_the_others_limited() {
    for text in POLICIES {
        let double = Double::new();
        let limiter = double.limiter(&policy(text));
        for _ in 0..2 {
            assert!(limiter.check("full").await.unwrap().is_admitted());
        }
        double.server().set_max_memory(Some(0));
        for number in 0..10 {
            // More failures in a row than open the circuit breaker.
            for _ in 0..6 {
                assert!(limiter.check(&*format!("fresh-{number}")).await.is_err());
                advance(Duration::from_millis(30)).await;
            }
            assert!(!limiter.check("full").await.unwrap().is_admitted(), "{text}");
        }
        assert_eq!(limiter.counters().short_circuited, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_in_flight_are_renewed() {
    let double = Double::new();
    let limiter = RedisInFlight::builder("uploads", 8)
        .expires_after(Duration::from_secs(3))
        .clock(double.clock())
        .build_on(double.clone())
        .unwrap();
    let held = join_all((0..8).map(|_| limiter.enter("alice"))).await;
    let held: Vec<_> =
        held.into_iter().map(|entry| entry.unwrap().into_permit().unwrap()).collect();
    double.server().set_max_memory(Some(0));
    sleep(Duration::from_secs(12)).await;
    assert!(held.iter().all(|permit| !permit.is_lost()));
    assert!(limiter.enter("alice").await.unwrap().into_permit().is_none());
}
