//! A limited service with metrics for Prometheus, and a page that shows each algorithm at work.
//!
//! ```console
//! $ cargo run -p example-observability
//! listening on http://127.0.0.1:3000, try:
//!   open http://127.0.0.1:3000/ in a browser
//!   for i in $(seq 12); do curl -si 'http://127.0.0.1:3000/limited?subject=alice' | head -1; done
//!   curl -s http://127.0.0.1:3000/metrics | grep ratelimit_requests_total
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. The README has the alerts, the
//! dashboard and the recipe for OpenTelemetry.

mod buckets;
#[cfg(feature = "otlp")]
mod otlp;
mod page;
mod playground;
mod prometheus;
mod subject;
mod top;

use std::{env, net::Ipv4Addr};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let recorder = prometheus::recorder()?;
    let metrics = recorder.handle();
    let app = Router::new()
        .route("/", get(page::page))
        .route("/metrics", get(async move || metrics.render()))
        .merge(playground::routes()?);

    #[cfg(feature = "otlp")]
    if otlp::is_configured() {
        let otlp = otlp::Otlp::install(recorder)?;
        tokio::select! {
            served = serve(otlp::traced(app)) => served?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        return otlp.shut_down();
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    ::metrics::set_global_recorder(recorder)?;
    serve(app).await
}

async fn serve(app: Router) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port()?)).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  open http://{address}/ in a browser");
    println!(
        "  for i in $(seq 12); do curl -si 'http://{address}/limited?subject=alice' | head -1; done"
    );
    println!("  curl -s http://{address}/metrics | grep ratelimit_requests_total");
    Ok(axum::serve(listener, app).await?)
}

fn port() -> Result<u16> {
    match env::var("PORT") {
        Ok(port) => port.parse().with_context(|| format!("PORT is {port:?}: use 0 to 65535")),
        Err(_) => Ok(3000),
    }
}
