//! Permits that are taken up to a number, and charged in any case, by the server's own clock.

use limiter_core::{Cost, Error, Limiter, MemoryLimiter, Policy, Quota, Source};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::leases::{calls, leasing, own, process};

fn daily(permits: u64) -> Policy {
    Policy::gcra("test", Quota::per_day(permits))
}

/// Returns a limiter that caches denials.
async fn caching(server: &Server, policy: &Policy) -> RedisLimiter {
    process(policy).build_on(own(server).await).unwrap()
}

/// Returns the results of a program that does not know where the states are.
async fn program(limiter: &dyn Limiter) -> Result<Vec<u64>, Error> {
    let key = &"program".into();
    let batch = limiter.take_up_to(key, Cost::of(15)).await?;
    let rest = limiter.take_up_to(key, Cost::of(15)).await?;
    let none = limiter.take_up_to(key, Cost::of(15)).await?;
    let mut seen = vec![batch.permits(), rest.permits(), none.permits()];
    if let Some(receipt) = batch.into_receipt() {
        seen.push(limiter.refund(receipt.keep(5)).await?);
    }
    let charged = limiter.charge(key, Cost::of(500)).await?;
    let beyond = limiter.charge(key, Cost::of(500)).await?;
    seen.extend([charged.permits(), beyond.permits(), beyond.decision().remaining()]);
    assert!(none.decision().retry_after().is_some_and(|wait| !wait.is_zero()));
    assert!(beyond.is_admitted() && !limiter.check(key).await?.is_admitted());
    if let Some(receipt) = charged.into_receipt() {
        seen.push(limiter.refund(receipt.keep(1)).await?);
    }
    seen.push(limiter.peek(key).await?.remaining());
    Ok(seen)
}

#[tokio::test]
async fn what_is_taken_and_charged_is_the_same_in_memory_and_on_redis() {
    let server = Server::start();
    let policies = ["fixed-window", "sliding-log", "sub-windows 24 slots"].map(|algorithm| {
        let policy = Policy::parse("test", &format!("20/day by {algorithm}")).unwrap();
        (policy, [15, 5, 0, 10, 500, 0, 0, 499, 9])
    });
    // A day of a burst, and a day of a horizon. Of a debt above the burst, a refund gives back a burst at most.
    let gcra = (daily(20), [15, 5, 0, 10, 30, 0, 0, 20, 0]);
    for (policy, expected) in policies.into_iter().chain([gcra]) {
        let memory = program(&MemoryLimiter::new(policy.clone())).await.unwrap();
        assert_eq!(memory, expected, "{policy:?}");
        let limiter = caching(&server, &policy).await;
        assert_eq!(program(&limiter).await.unwrap(), expected, "{policy:?}");
        limiter.reset("program").await.unwrap();
    }
}

#[tokio::test]
async fn a_cached_denial_of_one_permit_alone_refuses_without_a_call() {
    let server = Server::start();
    let limiter = caching(&server, &daily(20)).await;
    assert_eq!(limiter.take_up_to("key", Cost::of(17)).await.unwrap().permits(), 17);
    // This denial is of five permits, and three are left.
    assert!(!limiter.check_n("key", Cost::of(5)).await.unwrap().is_admitted());
    assert_eq!(limiter.take_up_to("key", Cost::of(5)).await.unwrap().permits(), 3);
    let refused = limiter.take_up_to("key", Cost::of(5)).await.unwrap();
    assert_eq!((refused.permits(), refused.decision().source()), (0, Source::State));
    let before = calls(&server);
    let cached = limiter.take_up_to("key", Cost::of(5)).await.unwrap();
    assert_eq!((cached.permits(), cached.decision().source()), (0, Source::Cache));
    assert_eq!(limiter.check("key").await.unwrap().source(), Source::Cache);
    assert_eq!(calls(&server), before);
    // A charge is sent all the same.
    assert_eq!(limiter.charge("key", Cost::of(5)).await.unwrap().permits(), 5);
    assert_eq!(calls(&server), before + 1);
    let counters = limiter.counters();
    assert_eq!((counters.cached, counters.refused, counters.admitted), (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_leased_does_not_matter_to_a_charge() {
    let server = Server::start();
    let limiter = leasing(&server, &Policy::gcra("test", Quota::per_minute(60_000))).await;
    let mut leased = 0;
    for _ in 0..1_000 {
        leased += u32::from(limiter.check("key").await.unwrap().source() == Source::Lease);
    }
    assert!(leased > 100, "{leased}");
    let charged = limiter.charge("key", Cost::of(70_000)).await.unwrap();
    assert_eq!((charged.permits(), charged.decision().source()), (70_000, Source::State));
    let taken = limiter.take_up_to("key", Cost::of(1)).await.unwrap();
    assert_eq!((taken.permits(), taken.decision().source()), (0, Source::State));
    // Of a debt above the burst, a burst at most.
    let refunded = limiter.refund(charged.into_receipt().unwrap()).await.unwrap();
    assert!((50_000..=60_000).contains(&refunded), "{refunded}");
    let taken = limiter.take_up_to("key", Cost::of(10)).await.unwrap();
    assert_eq!((taken.permits(), taken.decision().source()), (10, Source::State));
}
