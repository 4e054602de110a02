//! An axum service that admits 10 requests a minute from each address to `/`, up to 10 at once.
//!
//! In the memory of this process:
//!
//! ```console
//! $ cargo run -p example-axum
//! ```
//!
//! Shared with all processes that use the same Redis or Valkey server:
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-axum
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. The program prints this line, to run in
//! another terminal:
//!
//! ```console
//! $ for i in $(seq 11); do curl -si http://127.0.0.1:3000/ | grep -iE '^(HTTP|ratelimit:|retry)'; done
//! HTTP/1.1 200 OK
//! ratelimit: "default";r=9;t=54
//! ...
//! HTTP/1.1 429 Too Many Requests
//! retry-after: 6
//! ratelimit: "default";r=0;t=6
//! ```

use std::{env, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use limiter_core::{Limiter, MemoryLimiter, Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_tower::{ClientIp, RateLimitLayer};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();

    let policy = Policy::gcra("default", Quota::per_minute(10));
    let layer = RateLimitLayer::new(limiter(policy).await?, ClientIp::peer());
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);

    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!(
        "  for i in $(seq 11); do curl -si http://{address}/ | grep -iE '^(HTTP|ratelimit:|retry)'; done"
    );
    // The layer counts requests by the peer's address, which axum adds to each request like this.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

/// Returns the limiter: in memory, or through Redis if `REDIS_URL` is set.
async fn limiter(policy: Policy) -> Result<Arc<dyn Limiter>> {
    Ok(match env::var("REDIS_URL") {
        Ok(url) => Arc::new(RedisLimiter::builder(policy).connect(&url).await?),
        Err(_) => Arc::new(MemoryLimiter::new(policy)),
    })
}
