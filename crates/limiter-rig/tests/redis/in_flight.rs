//! Requests in flight on real servers, by their own clocks.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use futures::future::{join_all, poll_fn};
use limiter_core::{ErrorKind, InFlightLimiter, InFlightPermit, Key, Source};
use limiter_redis::{
    ConnectOptions, Connection, RedisInFlight, RedisInFlightBuilder, RedisLimiter, connect_with,
};
use limiter_rig::server::{Cluster, Server};
use tokio::time::{sleep, timeout};

use crate::{GIVE_UP_AFTER, PATIENT, cluster::key_on, daily, eventually, load_scripts};

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

/// Returns how many calls of scripts the server has executed.
fn calls(server: &Server) -> usize {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let of = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(command));
        let calls = line.and_then(|line| line.strip_prefix(":calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse::<usize>().unwrap())
    };
    of("cmdstat_evalsha") + of("cmdstat_eval")
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
async fn a_short_request_costs_two_calls() {
    let server = Server::start();
    load_scripts(&server);
    let limiter = builder(3).connect(&server.url()).await.unwrap();
    let before = calls(&server);
    for _ in 0..50 {
        drop(enter(&limiter, "alice").await);
        limiter.drain(Duration::from_secs(5)).await.unwrap();
    }
    assert_eq!(calls(&server) - before, 100);
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
async fn a_caller_that_leaves_leaves_no_permit() {
    let server = Server::start();
    let limiter = builder(100).connect(&server.url()).await.unwrap();
    drop(enter(&limiter, "alice").await);
    for number in 0..300_u64 {
        let mut entry = Box::pin(limiter.enter("alice"));
        // Begins the request.
        poll_fn(|context| {
            let _ = entry.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        sleep(Duration::from_micros(number)).await;
        drop(entry);
    }
    until_members(&server, &limiter, "alice", 0).await;
    limiter.drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!((limiter.held(), limiter.counters().releases_failed), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_whose_reply_is_lost_is_given_back() {
    let server = Server::start();
    load_scripts(&server);
    let limiter = RedisInFlight::builder("test", 3).connect(&server.url()).await.unwrap();
    drop(enter(&limiter, "alice").await);
    server.pause();
    let error = limiter.enter("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undetermined, "{error}");
    server.resume();
    limiter.drain(Duration::from_secs(10)).await.unwrap();
    // Within much less than its expiry.
    until_members(&server, &limiter, "alice", 0).await;
    // The one before the pause, that of the time-out, and no other.
    assert_eq!(limiter.counters().undetermined, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_is_lost_when_the_server_is_gone_for_long() {
    let server = Server::start();
    let limiter = short(3).connect(&server.url()).await.unwrap();
    let permit = enter(&limiter, "alice").await;
    server.pause();
    // The process decides that on its own.
    timeout(GIVE_UP_AFTER, permit.lost()).await.unwrap();
    server.resume();
    assert!(permit.is_lost());
    eventually("it is counted", async || limiter.counters().permits_lost == 1).await;
    drop(permit);
    until_members(&server, &limiter, "alice", 0).await;
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
async fn after_a_flush_the_limit_is_exceeded_once() {
    let server = Server::start();
    let one = short(2).build_on(process(&server.url(), "flush-1").await).unwrap();
    let other = short(2).build_on(process(&server.url(), "flush-2").await).unwrap();
    let first = [enter(&one, "alice").await, enter(&one, "alice").await];
    server.command(&["FLUSHALL"]).unwrap();
    let second = [enter(&other, "alice").await, enter(&other, "alice").await];
    assert!(!other.enter("alice").await.unwrap().is_admitted());
    // The renewal finds no room.
    for permit in &first {
        timeout(GIVE_UP_AFTER, permit.lost()).await.unwrap();
    }
    eventually("two are lost", async || one.counters().permits_lost == 2).await;
    assert_eq!(members(&server, &one, "alice"), ":2");
    drop(first);
    server.command(&["FLUSHALL"]).unwrap();
    // With room they are restored.
    until_members(&server, &one, "alice", 2).await;
    eventually("two are restored", async || other.counters().permits_restored == 2).await;
    assert!(second.iter().all(|permit| !permit.is_lost()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_has_lost_are_sent_again() {
    let server = Server::start();
    let limiter = builder(1).connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        drop(enter(&limiter, "alice").await);
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        until_members(&server, &limiter, "alice", 0).await;
    }
    limiter.peek("alice").await.unwrap();
    limiter.reset("alice").await.unwrap();
    assert_eq!(limiter.counters().unavailable, 0);
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
async fn without_a_server_the_share_decides() {
    let mut server = Server::start();
    let url = server.url();
    server.kill();
    let four = NonZeroU32::new(4).unwrap();
    let limiter = RedisInFlight::builder("test", 8).local_share(four).connect(&url).await.unwrap();
    let mut entries = Vec::new();
    for _ in 0..3 {
        entries.push(limiter.enter("alice").await.unwrap());
    }
    let admitted = entries.iter().filter(|entry| entry.is_admitted());
    assert_eq!(admitted.count(), 2);
    assert!(entries.iter().all(|entry| entry.occupancy().source() == Source::Local));
    limiter.set_processes(NonZeroU32::MIN);
    assert!(limiter.enter("alice").await.unwrap().is_admitted());

    let limiter = RedisInFlight::builder("test", 8).connect(&url).await.unwrap();
    let error = limiter.enter("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // Nothing changes for a limiter without a share.
    limiter.set_processes(four);
    assert!(limiter.enter("alice").await.is_err());
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
