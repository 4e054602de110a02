//! Exactly the limit is admitted, and every key expires.

use std::time::{Duration, Instant};

use futures::future::join_all;
use limiter_core::{Policy, Quota};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::Server;

use crate::{key_of, patient};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_together_take_exactly_the_limit() {
    let server = Server::start();
    let checks = (0..8).map(async |_| {
        let limiter = patient(&server.url(), 100).await;
        let mut admitted = 0;
        for _ in 0..100 {
            let decision = limiter.check("key").await.unwrap();
            admitted += u32::from(decision.is_admitted());
        }
        admitted
    });
    let admitted: u32 = join_all(checks).await.into_iter().sum();
    assert_eq!(admitted, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_script_cache_is_invisible() {
    let server = Server::start();
    let limiter = patient(&server.url(), 100).await;
    let mut admitted = 0;
    for round in 0..200 {
        if round % 10 == 5 {
            assert_eq!(server.command(&["SCRIPT", "FLUSH"]).unwrap(), "+OK");
        }
        let several = (0..4).map(|_| limiter.check("key"));
        for decision in join_all(several).await {
            admitted += u32::from(decision.unwrap().is_admitted());
        }
    }
    assert_eq!(admitted, 100);
}

#[tokio::test]
async fn the_wait_is_exact_by_the_servers_clock() {
    let server = Server::start();
    // One permit in 200 ms.
    let policy = Policy::gcra("test", Quota::per_second(5).with_burst(1));
    let client = connect(&server.url()).await.unwrap();
    let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(5));
    let limiter = limiter.build_on(client).unwrap();
    for _ in 0..3 {
        // On a slow machine, the permit is back before the next check.
        let refusal = loop {
            let decision = limiter.check("key").await.unwrap();
            if !decision.is_admitted() {
                break decision;
            }
        };
        let wait = refusal.retry_after().unwrap();
        assert!(wait <= Duration::from_millis(200), "{wait:?}");
        tokio::time::sleep(wait).await;
        assert!(limiter.check("key").await.unwrap().is_admitted());
    }
}

/// The expiry has room for a span more, so that the next admissions do not set it.
#[tokio::test]
async fn every_key_expires_within_a_span_after_it_has_recovered_and_not_before() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    // Written in digits, as doubles, and with a remainder.
    let quotas = [
        Quota::per_minute(100),
        Quota::per_day(2),
        Quota::per_minute(256),
        Quota::per_minute(7),
        Quota::per_second(5_000_000),
    ];
    for (index, quota) in quotas.into_iter().enumerate() {
        let policy = Policy::gcra(&format!("p{index}"), quota);
        let limiter = RedisLimiter::builder(policy);
        let limiter = limiter.deadline(Duration::from_secs(5)).build_on(client.clone()).unwrap();
        let first = limiter.check("key").await.unwrap();
        assert!(first.is_admitted());
        let asked = Instant::now();
        let decision = limiter.check("key").await.unwrap();
        let life = server.command(&["PTTL", &key_of(&limiter, "key")]).unwrap();
        let life: i128 = life.trim_start_matches(':').parse().unwrap();
        let drain = i128::try_from(decision.reset_after().as_micros()).unwrap();
        let span = i128::try_from(quota.window().as_micros()).unwrap();
        // Up to 2 ms more, and a part of one, since a life counts from the start of a millisecond.
        let most = drain + span + 3_000;
        assert!(life * 1_000 < most, "{life} ms for a drain time of {drain} us");
        let passed = i128::try_from(asked.elapsed().as_micros()).unwrap();
        // The last may have expired already.
        let left = if life == -2 { 0 } else { life * 1_000 };
        assert!(left + passed >= drain, "{life} ms for a drain time of {drain} us");
    }
}
