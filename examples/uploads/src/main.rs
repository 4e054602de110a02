//! An axum service in which each user has at most three requests in flight: uploads, WebSockets and reports together.
//!
//! In the memory of this process:
//!
//! ```console
//! $ cargo run -p example-uploads
//! ```
//!
//! Shared with all processes that use the same Redis or Valkey server:
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-uploads
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. `EXPIRY` sets after how many seconds Redis forgets the
//! permits of a process that was killed, 10 by default. In another terminal, start three uploads that take a minute, and a
//! fourth one:
//!
//! ```console
//! $ for i in 1 2 3; do (sleep 60; echo end) | curl -sT - -H 'x-user: alice' http://127.0.0.1:3000/upload & done
//! $ curl -si -T Cargo.toml -H 'x-user: alice' http://127.0.0.1:3000/upload
//! HTTP/1.1 429 Too Many Requests
//! ratelimit-policy: "uploads";q=3;qu="concurrent-requests"
//! ratelimit: "uploads";r=0
//! ```
//!
//! End one of them, with `kill %1`, and the fourth is admitted. A WebSocket counts until it is closed, and a report until its
//! work has ended, which is five seconds after the response:
//!
//! ```console
//! $ curl -sN -H 'x-user: bob' -H 'connection: upgrade' -H 'upgrade: websocket' -H 'sec-websocket-version: 13' \
//!     -H 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==' http://127.0.0.1:3000/socket &
//! $ curl -si -X POST -H 'x-user: bob' http://127.0.0.1:3000/report
//! HTTP/1.1 202 Accepted
//! ratelimit: "uploads";r=1
//! ```

use std::{env, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{WebSocketUpgrade, ws::WebSocket},
    http::{HeaderName, StatusCode},
    response::Response,
    routing::{any, post, put},
};
use http_body_util::BodyExt;
use limiter_core::InFlightLimiter;
use limiter_redis::RedisInFlight;
use limiter_tower::{
    InFlight, InFlightLayer, InFlightRule,
    in_flight::{HoldGuard, RequestPermit},
    key::{HeaderKey, MaybeKey},
};
use tokio::{net::TcpListener, select, time::sleep};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();

    // A gateway has authenticated the user, and replaces the field if a client sends it.
    let user = HeaderKey::new(HeaderName::from_static("x-user")).assume_verified().or_reject();
    // Through Redis, a process that could not renew its permits ends their requests.
    let rule = InFlightRule::new(limiter().await?, user).strict();
    let app = Router::new()
        .route("/upload", put(upload))
        .route("/socket", any(socket))
        .route("/report", post(report))
        .layer(InFlightLayer::all([rule]));

    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  curl -si -T Cargo.toml -H 'x-user: alice' http://{address}/upload");
    Ok(axum::serve(listener, app).await?)
}

/// Returns the limiter: in memory, or through Redis if `REDIS_URL` is set.
async fn limiter() -> Result<Arc<dyn InFlightLimiter>> {
    let Ok(url) = env::var("REDIS_URL") else {
        return Ok(Arc::new(InFlight::new("uploads", 3)?));
    };
    let expiry = env::var("EXPIRY").unwrap_or_else(|_| "10".to_owned());
    let expiry = expiry.parse().with_context(|| format!("EXPIRY is {expiry:?}: use seconds"))?;
    let expiry = Duration::from_secs(expiry);
    let builder = RedisInFlight::builder("uploads", 3).expires_after(expiry);
    Ok(Arc::new(builder.deadline(expiry / 3).connect(&url).await?))
}

/// Reads a body. The layer holds the permit, and gives it back when the client is gone.
async fn upload(mut body: Body) -> Result<String, (StatusCode, String)> {
    tracing::info!("an upload has begun");
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok(format!("{length} bytes\n"))
}

/// Returns what it receives. The guard holds the permit after the response, which is over with its head.
async fn socket(permit: RequestPermit, upgrade: WebSocketUpgrade) -> Response {
    let guard = permit.hold();
    upgrade.on_upgrade(|socket| held(guard, echo(socket)))
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// Answers at once, and goes on.
async fn report(permit: RequestPermit) -> StatusCode {
    tokio::spawn(held(permit.hold(), sleep(Duration::from_secs(5))));
    StatusCode::ACCEPTED
}

/// Works until the permit is lost, because another request may then have its place.
async fn held(guard: Option<HoldGuard>, work: impl Future<Output = ()>) {
    let Some(guard) = guard else { return };
    select! {
        () = work => {}
        () = guard.lost() => tracing::warn!("the permit is lost, so its work has ended"),
    }
}
