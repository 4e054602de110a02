//! A hyper server that admits 10 requests an hour from each address. A `POST` costs 5.
//!
//! ```console
//! $ cargo run -p example-hyper
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. In another terminal:
//!
//! ```console
//! $ for i in 1 2 3; do curl -si http://127.0.0.1:3000/ -d hello; done
//! HTTP/1.1 200 OK
//! ratelimit-policy: "default";q=10;w=3600
//! ratelimit: "default";r=5;t=1800
//!
//! received 5 bytes
//! ...
//! HTTP/1.1 429 Too Many Requests
//! retry-after: 1800
//! ```
//!
//! The tower service is built once, and each connection wraps a clone of it that knows its peer. With a
//! proxy in front, use `ClientIp::behind` in place of `ClientIp::peer`.

use std::{convert::Infallible, env, time::Duration};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use limiter_core::Cost;
use limiter_tower::{ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer, Rule, key::PeerAddr};
use tokio::{net::TcpListener, time::sleep};
use tower::{ServiceBuilder, service_fn};

const POST: Cost = Cost::of(5);

#[tokio::main]
async fn main() -> Result<()> {
    let limiter = MemoryLimiter::new(Policy::gcra("default", Quota::per_hour(10)));
    let rule = Rule::new(limiter, ClientIp::peer())
        .cost(|head| if head.method == Method::POST { POST } else { Cost::ONE });
    let layer = RateLimitLayer::all([rule]);
    let service = ServiceBuilder::new().layer(layer).service(service_fn(respond));

    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  for i in 1 2 3; do curl -si http://{address}/ -d hello; done");

    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Such as too many open files. Connections that end make room for the next one.
            Err(error) => {
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // hyper does not know the address of its connection's other end, so the server inserts it.
        let service = ServiceBuilder::new()
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                request
            })
            .service(service.clone());
        tokio::spawn(async move {
            let io = TokioIo::new(stream);
            let service = TowerToHyperService::new(service);
            if let Err(error) = http1::Builder::new().serve_connection(io, service).await {
                eprintln!("connection of {peer}: {error}");
            }
        });
    }
}

/// Says how many bytes the body has.
async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match request.into_body().collect().await {
        Ok(body) => (StatusCode::OK, format!("received {} bytes\n", body.to_bytes().len())),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}
