//! What the crate promises without a server: settings, addresses and what is logged of them. What it promises on one is
//! tested in limiter-rig, by `cargo xtask test`.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod file;
mod redaction;
mod same_names;
mod settings;

use limiter_core::{Policy, Quota};
use limiter_redis::{Builder, ConnectOptions, Connection, RedisLimiter, connect_with};
use tokio::runtime::Handle;

/// Addresses at which nothing listens. A limiter is built before its server is connected.
const SERVER: &str = "redis://127.0.0.1:1";
const ANOTHER: &str = "redis://127.0.0.1:2";

/// Returns a builder of a limiter of `limit` permits a day.
fn builder(limit: u64) -> Builder {
    RedisLimiter::builder(Policy::gcra("test", Quota::per_day(limit)))
}

/// Returns a connection on the test's own runtime, so that the test's log has its lines.
async fn connect_here(url: &str) -> Connection {
    let options = ConnectOptions::new().with_runtime(Handle::current());
    connect_with(url, &options).await.unwrap()
}
