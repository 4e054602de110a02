//! Requests in flight on real servers, by their own clocks.

use std::time::{Duration, Instant};

use limiter_core::InFlightPermit;
use limiter_redis::{RedisInFlight, RedisInFlightBuilder};
use limiter_rig::server::{Cluster, Server};
use tokio::time::sleep;

use crate::{GIVE_UP_AFTER, cluster::key_on, eventually};

/// Short, so that a test lasts for several, and three times as long as a deadline that a busy machine does not miss.
const EXPIRY: Duration = Duration::from_secs(3);

fn short(limit: u32) -> RedisInFlightBuilder {
    RedisInFlight::builder("test", limit).deadline(EXPIRY / 3).expires_after(EXPIRY)
}

/// Waits until the permits of so many calls have been renewed through two expiries and more, and shows that they were
/// renewed three times an expiry and not more often.
async fn renewed(limiter: &RedisInFlight, calls: u64) {
    let (start, before) = (Instant::now(), limiter.counters().renewals);
    let renewals = || limiter.counters().renewals - before;
    eventually("the permits are renewed", async || renewals() >= 7 * calls).await;
    let (most, renewals) = (3.0 * start.elapsed().as_secs_f64() / EXPIRY.as_secs_f64(), renewals());
    assert!(renewals as f64 <= (most + 1.5) * calls as f64, "{renewals} in {most} periods");
}

async fn enter(limiter: &RedisInFlight, key: &str) -> InFlightPermit {
    let start = Instant::now();
    loop {
        if let Ok(entry) = limiter.enter(key).await {
            return entry.into_permit().unwrap();
        }
        assert!(start.elapsed() < GIVE_UP_AFTER, "no answer");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns how many permits of a key the server has.
fn members(server: &Server, limiter: &RedisInFlight, key: &str) -> String {
    let key = String::from_utf8(limiter.stored_key(key).unwrap()).unwrap();
    server.command(&["ZCARD", &key]).unwrap()
}

async fn until_members(server: &Server, limiter: &RedisInFlight, key: &str, number: usize) {
    let expected = number.to_string();
    let what = format!("{number} permits of {key}");
    let is_so = async || members(server, limiter, key).trim_start_matches(':') == expected;
    eventually(&what, is_so).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_outlast_several_expiries_and_lost_connections() {
    let server = Server::start();
    let limiter = short(100).connect(&server.url()).await.unwrap();
    let mut permits = Vec::new();
    for number in 0..100 {
        permits.push(enter(&limiter, &format!("key {}", number % 4)).await);
    }
    renewed(&limiter, 1).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));

    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    sleep(2 * EXPIRY).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    assert_eq!(limiter.counters().permits_lost, 0);
    until_members(&server, &limiter, "key 0", 25).await;
    drop(permits);
    until_members(&server, &limiter, "key 0", 0).await;
    assert_eq!(limiter.held(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_in_a_cluster_are_renewed_slot_by_slot() {
    let cluster = Cluster::start();
    let limiter = short(2).connect(&cluster.url()).await.unwrap();
    let keys: Vec<_> = (0..3).map(|node| key_on(&cluster, node)).collect();
    let mut permits = Vec::new();
    for key in keys.iter().chain(&keys) {
        permits.push(enter(&limiter, key).await);
        assert!(!permits.is_empty());
    }
    for key in &keys {
        assert!(!limiter.enter(key.as_str()).await.unwrap().is_admitted());
    }
    renewed(&limiter, 3).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    drop(permits);
    limiter.drain(Duration::from_secs(5)).await.unwrap();
    for key in &keys {
        assert_eq!(limiter.peek(key.as_str()).await.unwrap().held(), 0);
    }
    assert_eq!(limiter.counters().releases_failed, 0);
}
