//! What the crate promises on a real server by its own clock, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod acl;
mod batches;
mod changes;
mod cluster;
mod connections;
mod exactness;
mod failure;
mod faults;
mod holes;
mod nodes;
mod operations;
mod planted;
mod replicas;
mod scripted;
mod secrets;
mod sentinel;
mod settings;
#[cfg(feature = "tls")]
mod tls;
mod words;

use std::time::Duration;

use limiter_core::{Policy, Quota};
use limiter_redis::{Builder, Connection, RedisLimiter, connect};

/// Returns a policy of `limit` permits a day, all of them at once. Nothing recovers during a test.
fn daily(limit: u64) -> Policy {
    Policy::gcra("test", Quota::per_day(limit))
}

/// Returns a builder of a limiter of `limit` permits a day on the server at `url`.
async fn builder(url: &str, limit: u64) -> Builder<Connection> {
    RedisLimiter::builder(connect(url).await.unwrap(), daily(limit))
}

/// Returns a limiter of `limit` permits a day on the server at `url`.
async fn limiter(url: &str, limit: u64) -> RedisLimiter {
    builder(url, limit).await.build().unwrap()
}

/// Returns a limiter as [`limiter`] does, with a deadline that a slow machine does not miss.
async fn patient(url: &str, limit: u64) -> RedisLimiter {
    builder(url, limit).await.deadline(Duration::from_secs(5)).build().unwrap()
}
