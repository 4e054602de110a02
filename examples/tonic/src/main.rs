//! A gRPC server that admits 12 calls a minute from each address, up to 3 at once, and a client that
//! reads from a refusal when to retry.
//!
//! ```console
//! $ cargo run -p example-tonic
//! ```
//!
//! `PORT` sets the port, 50051 by default; 0 chooses a free one. In another terminal:
//!
//! ```console
//! $ cargo run -p example-tonic -- client http://127.0.0.1:50051
//! call 1: SERVING
//! call 2: SERVING
//! call 3: SERVING
//! call 4: RESOURCE_EXHAUSTED: rate limit exceeded; retry in 4.996 s
//! call 4: SERVING
//! call 5: RESOURCE_EXHAUSTED: rate limit exceeded; retry in 4.995 s
//! call 5: SERVING
//! ```
//!
//! The service is the health service of tonic-health, because it needs no `protoc`. Any other one is
//! limited in the same way.

use std::env;

use anyhow::{Context, Result, bail};
use limiter_tower::{Answers, ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer};
use tokio::net::TcpListener;
use tonic::{
    Code,
    service::LayerExt,
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_health::{
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::health_reporter,
};
use tonic_types::StatusExt;

const CALLS: usize = 5;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve().await,
        ["client", url] => call(url.to_owned()).await,
        _ => bail!("usage: example-tonic [client URL]"),
    }
}

async fn serve() -> Result<()> {
    let policy = Policy::gcra("default", Quota::per_minute(12).with_burst(3));
    let limiter = MemoryLimiter::new(policy);
    // tonic inserts the peer's address into each request. With `grpc`, refusals have a gRPC status.
    let layer = RateLimitLayer::new(limiter, ClientIp::peer()).answers(Answers::new().grpc());

    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "50051".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  cargo run -p example-tonic -- client http://{address}");

    // `named_layer` limits this service and keeps its name, by which the router finds it. To limit all
    // services together, call `Server::builder().layer(layer)`.
    let (_reporter, health) = health_reporter();
    let router = Server::builder().add_service(layer.named_layer(health));
    Ok(router.serve_with_incoming(TcpIncoming::from(listener)).await?)
}

/// Makes each call until it is admitted, and never before the server says.
async fn call(url: String) -> Result<()> {
    let mut client = HealthClient::new(Endpoint::from_shared(url)?.connect().await?);
    for number in 1..=CALLS {
        loop {
            let status = match client.check(HealthCheckRequest::default()).await {
                Ok(response) => {
                    println!("call {number}: {}", response.into_inner().status().as_str_name());
                    break;
                }
                Err(status) => status,
            };
            // google.rpc.RetryInfo. `get_details_quota_failure` returns which limit refused the call.
            let info = status.get_details_retry_info();
            let delay = match (status.code(), info.and_then(|info| info.retry_delay)) {
                (Code::ResourceExhausted, Some(delay)) => delay,
                _ => return Err(status.into()),
            };
            let (message, seconds) = (status.message(), delay.as_secs_f64());
            println!("call {number}: RESOURCE_EXHAUSTED: {message}; retry in {seconds:.3} s");
            tokio::time::sleep(delay).await;
        }
    }
    Ok(())
}
