//! What the crate promises on a real server by its own clock, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod acl;
mod batches;
mod cluster;
mod connections;
mod doctor;
mod exactness;
mod failure;
mod faults;
mod holes;
mod nodes;
mod operations;
mod planted;
mod replicas;
mod sentinel;
mod settings;
#[cfg(feature = "tls")]
mod tls;
mod words;

use std::time::Duration;

use limiter_core::{Policy, Quota};
use limiter_redis::{RedisLimiter, connect};

/// Returns a limiter of `limit` permits a day, all of them at once, on the server at `url`.
///
/// Nothing is refilled while a test lasts.
async fn limiter(url: &str, limit: u64) -> RedisLimiter {
    let policy = Policy::gcra("test", Quota::per_day(limit).unwrap()).unwrap();
    RedisLimiter::new(connect(url).await.unwrap(), policy).unwrap()
}

/// Returns a limiter as [`limiter`] does, with so long a deadline that only what goes wrong is an
/// error, and not what is slow.
async fn patient(url: &str, limit: u64) -> RedisLimiter {
    limiter(url, limit).await.with_deadline(Duration::from_secs(5)).unwrap()
}
