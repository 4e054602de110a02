//! A warp service that admits 10 requests an hour from each address. `/health` is not counted.
//!
//! ```console
//! $ cargo run -p example-warp
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one. In another terminal:
//!
//! ```console
//! $ for i in $(seq 12); do curl -si http://127.0.0.1:3000/hello/ada; done
//! HTTP/1.1 200 OK
//! ratelimit-policy: "default";q=10;w=3600
//! ratelimit: "default";r=9;t=3240
//!
//! hello ada, 9 requests remain
//! ...
//! HTTP/1.1 429 Too Many Requests
//! retry-after: 360
//! $ curl -si http://127.0.0.1:3000/health
//! HTTP/1.1 200 OK
//! ```
//!
//! `warp::service` makes a tower service of filters. `warp::serve` takes no layers, so the service is
//! served by hyper.

#[path = "../../listen.rs"]
mod listen;

use std::time::Duration;

use anyhow::Result;
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use limiter_tower::{
    ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer, Rule, key::PeerAddr, observe::Decisions,
};
use listen::listen;
use tokio::time::sleep;
use tower::ServiceBuilder;
use warp::Filter;

#[tokio::main]
async fn main() -> Result<()> {
    let limiter = MemoryLimiter::new(Policy::gcra("default", Quota::per_hour(10)));
    let rule = Rule::new(limiter, ClientIp::peer());
    let layer = RateLimitLayer::all([rule.clone()])
        // Inserts the decisions into the request, where a filter reads them.
        .decisions()
        .skip(|head| head.path() == "/health")
        // A refusal can't have warp's body.
        .any_body();
    let hello = warp::path!("hello" / String)
        .and(warp::ext::get::<Decisions>())
        .map(move |name, decisions| greeting(name, &decisions, &rule));
    let health = warp::path!("health").map(|| "healthy\n".to_owned());
    let service = ServiceBuilder::new().layer(layer).service(warp::service(hello.or(health)));

    let (listener, address) = listen(3000).await?;
    println!("  for i in $(seq 12); do curl -si http://{address}/hello/ada; done");
    println!("  curl -si http://{address}/health");

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

fn greeting(name: String, decisions: &Decisions, rule: &Rule) -> String {
    let remaining = decisions.of(rule).map_or(0, |decided| decided.decision().remaining());
    format!("hello {name}, {remaining} requests remain\n")
}
