//! What limiter-redis promises on a real server by its own clock, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod acl;
mod batches;
mod blocks;
mod brought;
mod busy;
mod changes;
mod charges;
mod clocked;
mod cluster;
mod conformance;
mod connections;
mod credentials;
mod denied;
mod denied_writes;
mod evidence;
mod exactness;
mod failure;
mod fallbacks;
mod faults;
mod file;
mod full_memory;
mod holes;
mod idle;
mod in_flight;
mod lease_cluster;
mod lease_faults;
mod lease_table;
mod lease_windows;
mod leases;
mod nodes;
mod older_map;
mod operations;
mod planted;
mod ready;
mod redaction;
mod resharding;
mod scripted;
mod secrets;
mod sentinel;
mod sessions;
mod silence;
#[cfg(target_os = "linux")]
mod threads;
mod tls;
mod words;

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use limiter_core::{Fallback, Policy, Quota};
use limiter_redis::{Builder, ConnectOptions, Connection, RedisLimiter, connect_with, scripts};
use limiter_rig::server::Server;
use tokio::{runtime::Handle, time::sleep};

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

/// Returns a limiter as [`limiter`] does, on the test's own runtime.
async fn limiter_here(url: &str, limit: u64) -> RedisLimiter {
    builder(limit).build_on(connect_here(url).await).unwrap()
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

/// Gives a server all scripts, for tests in which nothing else may use the connection while a check does.
fn load_scripts(server: &Server) {
    for (_, script) in scripts::all() {
        server.command(&["SCRIPT", "LOAD", script]).unwrap();
    }
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
