//! A limited service with metrics for Prometheus.
//!
//! ```console
//! $ cargo run -p example-observability
//! listening on http://127.0.0.1:3000, try:
//!   for i in $(seq 12); do curl -si http://127.0.0.1:3000/ | head -1; done
//!   curl -s http://127.0.0.1:3000/metrics | grep ratelimit_requests_total
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. `LIMIT` sets the limit of each address,
//! `10/min` by default. With `REDIS_URL`, permits are leased from Redis. The README has the alerts, the
//! dashboard and the settings of an OpenTelemetry collector.

mod buckets;
mod leases;
mod prometheus;

use std::{env, net::SocketAddr};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use limiter_tower::{ClientIp, MemoryLimiter, Policy, RateLimitLayer};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let metrics = prometheus::install()?;
    let limit = env::var("LIMIT").unwrap_or_else(|_| "10/min".to_owned());
    let policy = Policy::parse("api", &limit)?;
    // A proxy on this machine names the clients.
    let client = ClientIp::behind(["127.0.0.1"])?;
    let layer = match env::var("REDIS_URL") {
        Ok(url) => {
            let limiter = leases::limiter(&url, policy).await?;
            RateLimitLayer::new(limiter, client)
        }
        Err(_) => RateLimitLayer::new(MemoryLimiter::new(policy), client),
    };
    // Routes that are added after the layer are not limited.
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(layer)
        .route("/metrics", get(async move || metrics.render()));

    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  for i in $(seq 12); do curl -si http://{address}/ | head -1; done");
    println!("  curl -s http://{address}/metrics | grep ratelimit_requests_total");
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}
