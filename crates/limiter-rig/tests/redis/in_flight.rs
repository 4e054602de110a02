//! Requests in flight on real servers, by their own clocks.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{InFlightLimiter, InFlightPermit, Key};
use limiter_redis::{
    ConnectOptions, Connection, RedisInFlight, RedisInFlightBuilder, RedisLimiter, connect_with,
};
use limiter_rig::server::{Cluster, Server};
use tokio::time::sleep;

use crate::{GIVE_UP_AFTER, PATIENT, cluster::key_on, daily, eventually};

/// Short, so that a test lasts for several, and three times as long as a deadline that a busy machine does not miss.
const EXPIRY: Duration = Duration::from_secs(3);

fn builder(limit: u32) -> RedisInFlightBuilder {
    RedisInFlight::builder("test", limit).deadline(PATIENT)
}

fn short(limit: u32) -> RedisInFlightBuilder {
    builder(limit).deadline(EXPIRY / 3).expires_after(EXPIRY)
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

/// Returns a connection of its own, as another process has it.
async fn process(url: &str, name: &str) -> Connection {
    connect_with(url, &ConnectOptions::new().with_name(name)).await.unwrap()
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
async fn processes_together_admit_as_many_as_the_limit() {
    const LIMIT: usize = 5;
    let server = Server::start();
    let mut limiters = Vec::new();
    for number in 0..3 {
        let connection = process(&server.url(), &format!("in-flight-{number}")).await;
        limiters.push(builder(5).build_on(connection).unwrap());
    }
    let (running, most, admitted) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let work = async |number: usize| {
        let limiter = &limiters[number % 3];
        while admitted.load(SeqCst) < 500 {
            let entry = limiter.enter("alice").await.unwrap();
            let Some(permit) = entry.into_permit() else {
                sleep(Duration::from_micros(300)).await;
                continue;
            };
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            admitted.fetch_add(1, SeqCst);
            sleep(Duration::from_millis(1)).await;
            running.fetch_sub(1, SeqCst);
            drop(permit);
        }
    };
    join_all((0..60).map(work)).await;
    println!("{} admitted, {} at once", admitted.load(SeqCst), most.load(SeqCst));
    assert_eq!(most.load(SeqCst), LIMIT);
    for limiter in &limiters {
        limiter.drain(Duration::from_secs(5)).await.unwrap();
        assert_eq!((limiter.held(), limiter.counters().releases_failed), (0, 0));
    }
    assert_eq!(members(&server, &limiters[0], "alice"), ":0");
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

/// A permit that is dropped while it is renewed is given back after the renewal. Once `drain` did not wait for that, and a
/// process that ended left the permit until it expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_dropped_while_it_is_renewed_is_awaited_by_drain() {
    let server = Server::start();
    let limiter = short(3).connect(&server.url()).await.unwrap();
    let permit = enter(&limiter, "alice").await;
    server.pause();
    eventually("it is renewed", async || limiter.counters().renewals == 1).await;
    drop(permit);
    assert!(limiter.drain(Duration::from_millis(20)).await.is_err(), "it is not given back");
    server.resume();
    limiter.drain(PATIENT).await.unwrap();
    assert_eq!(members(&server, &limiter, "alice"), ":0");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limiter_of_rates_lends_its_connection_and_settings() {
    let server = Server::start();
    let rates = RedisLimiter::builder(daily(5)).prefix("shop").deadline(Duration::from_secs(5));
    let rates = rates.key_secret([7; 32]).connect(&server.url()).await.unwrap();
    let uploads = rates.in_flight("uploads", 1).unwrap();
    assert_eq!(uploads.stored_key("alice").unwrap(), b"shop:{salice}:uploads:inflight");
    let key = Key::secret("sk-1");
    let permit = uploads.enter(key).await.unwrap().into_permit().unwrap();
    // Another handle of the same states, with other ids.
    let again = rates.in_flight("uploads", 1).unwrap();
    assert!(!again.enter(Key::secret("sk-1")).await.unwrap().is_admitted());
    assert!(again.enter_under(Key::secret("sk-1"), 2).await.unwrap().is_admitted());
    drop(permit);
    let limiter: &dyn InFlightLimiter = &again;
    uploads.drain(Duration::from_secs(5)).await.unwrap();
    again.drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(limiter.peek(&Key::secret("sk-1"), 1).await.unwrap().held(), 0);
    assert!(rates.in_flight("uploads", 0).is_err());
}
