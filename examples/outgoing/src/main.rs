//! A client that sends 12 requests at once, no faster than their server allows.
//!
//! With a server of 10 requests a minute:
//!
//! ```console
//! $ cargo run -p example-axum &
//! $ cargo run -p example-outgoing
//! http://127.0.0.1:3000/: 200 OK after 0.0 s
//! ...
//! http://127.0.0.1:3000/: 200 OK after 66.1 s
//! ```
//!
//! `URL` sets another address, and `CLIENT=reqwest` sends through reqwest instead of hyper-util. The response to the first
//! request announces the server's limit, which sets the pace of the others: here one every 6 s.
//! No request is refused, unless other clients use the same limit.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use limiter_client::{Policy, Quota, ThrottleLayer};
use tokio::task::JoinSet;
use tower::{ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

/// Sends a request, and returns the response's head.
type Http = BoxCloneSyncService<Request<Bytes>, Response<()>, anyhow::Error>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::var("URL").unwrap_or_else(|_| "http://127.0.0.1:3000/".to_owned());
    let client = match env::var("CLIENT").as_deref() {
        Ok("reqwest") => through_reqwest()?,
        Ok("hyper-util") | Err(_) => through_hyper(),
        Ok(other) => bail!("CLIENT is {other:?}: use hyper-util or reqwest"),
    };

    // The fastest pace, however much a server allows.
    let policy = Policy::gcra("outgoing", Quota::per_second(50));
    let throttle = ThrottleLayer::new(policy)?.within(Duration::from_secs(120));
    let client = ServiceBuilder::new().layer(throttle).service(client);

    let start = Instant::now();
    let send = || {
        let (client, request) = (client.clone(), Request::get(&url).body(Bytes::new()));
        async move {
            let response = client.oneshot(request?).await;
            // An `anyhow::Error` is no `Error`, so that of the layer around it is not one either.
            let response = response.map_err(|error| anyhow!(error.into_boxed()))?;
            Ok::<StatusCode, anyhow::Error>(response.status())
        }
    };
    let mut tasks = JoinSet::new();
    // Alone, because the server's limit is not known before its response.
    let first = send().await;
    tasks.spawn(async { first });
    for _ in 1..12 {
        tasks.spawn(send());
    }
    while let Some(status) = tasks.join_next().await {
        let status = status??;
        println!("{url}: {status} after {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn through_hyper() -> Http {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let response = client.request(request.map(Full::new));
        async move { Ok(response.await?.map(drop)) }
    }))
}

/// reqwest converts its requests and responses from and to those of the crate `http`.
fn through_reqwest() -> Result<Http> {
    // A redirect that reqwest followed would be a request without a permit.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    Ok(BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await?;
            Ok(Response::from(response).map(drop))
        }
    })))
}
