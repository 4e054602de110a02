//! What limiter-redis promises on a real server by its own clock, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod acl;
mod brought;
mod busy;
mod clocked;
mod cluster;
mod conformance;
mod connections;
mod credentials;
mod evidence;
mod file;
mod full_memory;
mod holes;
mod idle;
mod in_flight;
mod nodes;
mod older_map;
mod outages;
mod planted;
mod ready;
mod redaction;
mod resharding;
mod scripted;
mod sentinel;
mod silence;
#[cfg(target_os = "linux")]
mod threads;
mod tls;

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use limiter_core::{Decision, Fallback, Policy, Quota};
use limiter_redis::{Builder, ConnectOptions, Connection, RedisLimiter, connect_with};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

/// Returns a policy of `limit` permits a day, all of them at once. Nothing recovers during a test.
fn daily(limit: u64) -> Policy {
    Policy::gcra("test", Quota::per_day(limit))
}

/// Returns a builder of a limiter of `limit` permits a day.
fn builder(limit: u64) -> Builder {
    RedisLimiter::builder(daily(limit))
}

/// Returns a connection on the test's own runtime. With one thread, the test sees what it logs, and a
/// batch has all checks that are ready.
async fn connect_here(url: &str) -> Connection {
    let options = ConnectOptions::new().with_runtime(Handle::current());
    connect_with(url, &options).await.unwrap()
}

/// Returns a limiter of `limit` permits a day on the server at `url`.
async fn limiter(url: &str, limit: u64) -> RedisLimiter {
    builder(limit).connect(url).await.unwrap()
}

/// Returns a limiter that decides by its share in memory while the store fails, as one of so many processes.
fn shared(limiter: &RedisLimiter, processes: u32) -> Fallback<RedisLimiter> {
    Fallback::new(limiter.clone()).sharing(NonZeroU32::new(processes).unwrap()).unwrap()
}

/// Returns how many operations of a limiter the store has not decided.
fn failures(limiter: &RedisLimiter) -> u64 {
    let counters = limiter.counters();
    let sent = counters.unavailable + counters.undetermined + counters.unexpected;
    sent + counters.short_circuited
}

/// How many permits each of [`POLICIES`] has in a day.
const PERMITS: u64 = 2;

/// Policies whose checks take each script that charges.
const POLICIES: [&str; 7] = [
    "2/d",
    "2/d by fixed-window",
    "2/d by sliding-counter",
    "2/d by sliding-log",
    "2/d by sub-windows 10 slots",
    "2/d, 3/2d",
    "2/d, 3/2d by sliding-log",
];

/// Returns a policy of some limits.
fn policy(text: &str) -> Policy {
    let limits = text.split(", ").map(|limit| Policy::parse(limit, limit).unwrap());
    match limits.clone().count() {
        1 => Policy::parse("test", text).unwrap(),
        _ => Policy::all_of("test", limits).unwrap(),
    }
}

/// Checks until the server answers. No check may hang.
async fn recover(limiter: &RedisLimiter) -> (Decision, Duration) {
    let start = Instant::now();
    while start.elapsed() < GIVE_UP_AFTER {
        if let Ok(decision) = timeout(GIVE_UP_AFTER, limiter.check("key")).await.unwrap() {
            return (decision, start.elapsed());
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("the server was not found again")
}

/// Returns the key of a subject's hash, or if all limits are logs, of the list of the first one.
fn key_of(limiter: &RedisLimiter, subject: &str) -> String {
    String::from_utf8(limiter.stored_keys(subject).unwrap().swap_remove(0)).unwrap()
}

/// How long a test waits for an event before it fails. No test depends on its length, so it is far more than a busy
/// machine needs.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// A deadline that replies do not miss on a busy machine.
const PATIENT: Duration = Duration::from_secs(5);

/// Waits until a condition holds.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < GIVE_UP_AFTER, "not so: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Returns a limiter as [`limiter`] does, with a deadline that a busy machine does not miss.
async fn patient(url: &str, limit: u64) -> RedisLimiter {
    builder(limit).deadline(PATIENT).connect(url).await.unwrap()
}
