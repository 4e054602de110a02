//! Permits that are taken up to a number, and charged in any case, by the server's own clock.

use limiter_core::{Cost, Policy, Quota, Source};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;

use crate::{
    calls,
    leases::{leasing, own, process},
};

fn daily(permits: u64) -> Policy {
    Policy::gcra("test", Quota::per_day(permits))
}

/// Returns a limiter that caches denials.
async fn caching(server: &Server, policy: &Policy) -> RedisLimiter {
    process(policy).build_on(own(server).await).unwrap()
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
