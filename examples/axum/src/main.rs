//! An axum service whose `/` takes 10 requests a minute from each address, 10 of them at once.
//!
//! In the memory of this process:
//!
//! ```console
//! $ cargo run -p example-axum
//! ```
//!
//! Shared with every process that uses the same Redis or Valkey:
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-axum
//! ```
//!
//! `PORT` chooses the port, 3000 if it is not set, and 0 any that is free. Then, from another
//! terminal, the line that the program prints:
//!
//! ```console
//! $ for i in $(seq 12); do curl -si http://127.0.0.1:3000/ | grep -iE '^(HTTP|ratelimit:|retry)'; done
//! HTTP/1.1 200 OK
//! ratelimit: "default";r=9;t=54
//! ...
//! HTTP/1.1 429 Too Many Requests
//! ratelimit: "default";r=0;t=6
//! retry-after: 6
//! ```

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use limiter_core::{Limiter, MemoryLimiter, Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_tower::RateLimitLayer;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();

    let policy = Policy::gcra("default", Quota::per_minute(10)?)?;
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::new(limiter(policy).await?));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port()?)).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!(
        "  for i in $(seq 12); do curl -si http://{address}/ | grep -iE '^(HTTP|ratelimit:|retry)'; done"
    );
    // The layer counts by the peer's address, which axum puts into each request like this.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

/// The whole difference between one process and many.
async fn limiter(policy: Policy) -> Result<Arc<dyn Limiter>> {
    Ok(match env::var("REDIS_URL") {
        Ok(url) => Arc::new(RedisLimiter::new(limiter_redis::connect(&url).await?, policy)?),
        Err(_) => Arc::new(MemoryLimiter::new(policy)?),
    })
}

fn port() -> Result<u16> {
    match env::var("PORT") {
        Ok(port) => port.parse().with_context(|| format!("PORT is {port:?}: use 0 to 65535")),
        Err(_) => Ok(3000),
    }
}
