//! The behaviour of the layer, one file an area.

#![cfg(feature = "axum")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod answers;
mod failures;
mod fields;
mod keys;
mod server;
mod sharing;
mod tower_contract;

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
};

use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use limiter_core::{ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{RateLimitLayer, ResponseBody};
use tower::{Service, ServiceExt};

type Body = Full<bytes::Bytes>;

/// Returns a limiter of `quota`, and its clock, which stands still.
fn limiter(quota: Quota) -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let policy = Policy::gcra("default", quota);
    let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap();
    (limiter, clock)
}

/// Returns a layer of ten permits a minute, and its clock, which stands still.
fn layer() -> (RateLimitLayer<MemoryLimiter<ManualClock>>, ManualClock) {
    let (limiter, clock) = limiter(Quota::per_minute(10));
    (RateLimitLayer::new(limiter), clock)
}

/// The inner service: responds with `hello`.
async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn request_from(address: &str) -> Request<Body> {
    let address: IpAddr = address.parse().unwrap();
    let mut request = Request::new(Body::default());
    request.extensions_mut().insert(SocketAddr::from((address, 4711)));
    request
}

/// Sends one request as a client would: once the service is ready.
async fn send<S>(service: &S, request: Request<Body>) -> Response<ResponseBody<Body>>
where
    S: Service<Request<Body>, Response = Response<ResponseBody<Body>>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}
