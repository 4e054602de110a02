//! Waiting, cached denials and receipts, by the server's own clock.

use std::time::{Duration, Instant};

use futures::FutureExt;
use limiter_core::{Cost, Policy, Quota, Receipt, Source};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::{calls, patient as daily_limiter};
const LONG: Duration = Duration::from_secs(10);

async fn patient(url: &str, policy: Policy) -> RedisLimiter {
    RedisLimiter::builder(policy).deadline(LONG).connect(url).await.unwrap()
}

/// One every 50 ms, without a burst.
fn paced_out(name: &str) -> Policy {
    let quota = Quota::per_second(20).with_burst(1);
    Policy::leaky_queue(name, 100, quota)
}

#[tokio::test]
async fn waiters_are_admitted_one_by_one_in_their_order() {
    let server = Server::start();
    let limiter = patient(&server.url(), paced_out("queue")).await;
    let key = "key";
    let start = Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        // Each has its place before the next one asks.
        let before = limiter.peek(key).await.unwrap().reset_after();
        waiting.push(tokio::spawn({
            let limiter = limiter.clone();
            async move {
                let acquired = limiter.acquire("key", Cost::ONE, None).await.unwrap();
                assert_eq!(acquired.delay(), Some(Duration::ZERO));
                start.elapsed()
            }
        }));
        while limiter.peek(key).await.unwrap().reset_after() <= before {}
    }
    let mut times = Vec::new();
    for task in waiting {
        times.push(task.await.unwrap());
    }
    assert!(times.is_sorted(), "{times:?}");
    // Four intervals after the first, which began after the start.
    assert!(times[4] >= Duration::from_millis(199), "{times:?}");
}

#[tokio::test]
async fn who_does_not_wait_any_longer_gives_the_place_back() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_minute(1));
    let limiter = patient(&server.url(), policy).await;
    // Dropped before the server has answered, or while it waits for its turn.
    for (key, patience) in [("unheard", 50), ("asleep", 50_000)] {
        assert!(limiter.check(key).await.unwrap().is_admitted());
        let used_up = limiter.peek(key).await.unwrap().reset_after();
        let acquire = limiter.acquire(key, Cost::ONE, None);
        let dropped = tokio::time::timeout(Duration::from_micros(patience), acquire).await;
        assert!(dropped.is_err());
        let start = Instant::now();
        while limiter.peek(key).await.unwrap().reset_after() > used_up {
            assert!(start.elapsed() < crate::GIVE_UP_AFTER, "the place was not given back");
        }
    }
}

#[tokio::test]
async fn a_place_that_nobody_took_is_given_back() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_minute(1).with_burst(2));
    let limiter = patient(&server.url(), policy).await;
    for (key, is_elsewhere) in [("key", false), ("other", true)] {
        let mut acquire = Box::pin(limiter.acquire(key, Cost::of(2), None));
        assert!((&mut acquire).now_or_never().is_none());
        let start = Instant::now();
        while limiter.peek(key).await.unwrap().used() == 0 {
            assert!(start.elapsed() < crate::GIVE_UP_AFTER, "nothing was taken");
        }
        // The answer was there before that of the last poll, and nobody has read it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        if is_elsewhere {
            // Where there is no runtime.
            std::thread::spawn(|| drop(acquire)).join().unwrap();
        } else {
            drop(acquire);
        }
        while limiter.peek(key).await.unwrap().used() > 1 {
            assert!(start.elapsed() < crate::GIVE_UP_AFTER, "the place was not given back");
        }
    }
}

#[tokio::test]
async fn who_can_not_have_it_in_time_is_refused_at_once() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_day(1));
    let limiter = patient(&server.url(), policy).await;
    let key = "key";
    for (cost, within, admitted) in [
        (1, Some(Duration::ZERO), true),
        (1, Some(Duration::from_secs(3_600)), false),
        (2, None, false),
    ] {
        let cost = Cost::new(cost).unwrap();
        // Who waits for it waits for an hour, or for ever.
        let acquired =
            tokio::time::timeout(crate::GIVE_UP_AFTER, limiter.acquire(key, cost, within));
        assert_eq!(acquired.await.unwrap().unwrap().decision().is_admitted(), admitted);
    }
}

#[tokio::test]
async fn a_known_refusal_asks_no_server() {
    let server = Server::start();
    let limiter = daily_limiter(&server.url(), 3).await;
    let key = "key";
    let check = async |cost: u64| limiter.check_n(key, Cost::new(cost).unwrap()).await.unwrap();
    assert!(check(2).await.is_admitted());
    let refused = check(2).await;
    assert_eq!((refused.is_admitted(), refused.source()), (false, Source::State));
    let asked = || calls(&server);
    let before = asked();
    for _ in 0..100 {
        let again = check(2).await;
        assert_eq!((again.is_admitted(), again.source()), (false, Source::Cache));
        assert!(again.retry_after() <= refused.retry_after());
    }
    // A larger cost is refused too, and the refusal of what can never fit says so.
    assert_eq!(check(3).await.source(), Source::Cache);
    assert_eq!(check(4).await.retry_after(), None);
    assert_eq!(asked(), before);
    // A smaller one may fit.
    assert!(check(1).await.is_admitted());
    assert!(asked() > before);
    let counted = limiter.counters();
    assert_eq!((counted.admitted, counted.refused, counted.cached), (2, 1, 102));
}

#[tokio::test]
async fn receipts_of_other_limiters_give_nothing_back() {
    let server = Server::start();
    let url = server.url();
    let (one, other) = (daily_limiter(&url, 5).await, daily_limiter(&url, 5).await);
    let key = "key";
    let reserve = async || {
        let reserved = one.reserve(key, Cost::of(2), Duration::ZERO).await.unwrap();
        reserved.into_receipt().unwrap()
    };
    assert_eq!(other.refund(reserve().await).await.unwrap(), 0);
    assert_eq!(one.refund(Receipt::new("a stranger's", 1)).await.unwrap(), 0);
    assert_eq!(one.peek(key).await.unwrap().used(), 2);
    let handle = one.with_policy(&Policy::gcra("handle", Quota::per_day(7))).unwrap();
    assert_eq!(handle.refund(reserve().await).await.unwrap(), 2);
    assert_eq!(one.peek(key).await.unwrap().used(), 2);
    let from_before_reset = reserve().await;
    one.reset(key).await.unwrap();
    assert_eq!(one.refund(from_before_reset).await.unwrap(), 0);
}
