//! The behaviour of the layer, one file an area.

#![cfg(feature = "axum")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod addresses;
mod answers;
mod browser;
mod dialects;
mod failures;
mod fields;
mod grpc;
mod grpc_refusals;
mod http2;
mod inside;
mod keep_alive;
mod keys;
mod metrics;
mod operation;
mod placement;
mod plans;
mod quotas;
mod random_fields;
mod refusals;
mod rules;
mod server;
mod settling;
mod sharing;
mod structured;
mod tower_contract;
mod trust;
mod waiting;

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
};

use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use limiter_core::{ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer, key::PeerAddr, observe::Decisions, service::ResponseBody,
};
use tower::{Layer, Service, ServiceExt, service_fn};

type Body = Full<bytes::Bytes>;

/// Returns a limiter of `quota`, and its clock, which stands still.
fn limiter(quota: Quota) -> (MemoryLimiter<ManualClock>, ManualClock) {
    limiter_of(Policy::gcra("default", quota))
}

fn limiter_of(policy: Policy) -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap();
    (limiter, clock)
}

/// Returns a layer of ten permits a minute, and its clock, which stands still.
fn layer() -> (RateLimitLayer, ManualClock) {
    let (limiter, clock) = limiter(Quota::per_minute(10));
    (per_address(limiter), clock)
}

/// Returns a layer that counts requests by the peer's address.
fn per_address(limiter: impl limiter_core::Limiter + 'static) -> RateLimitLayer {
    RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject).decisions()
}

/// The inner service: responds with `hello`.
async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

fn request_from(address: &str) -> Request<Body> {
    let address: IpAddr = address.parse().unwrap();
    let mut request = Request::new(Body::default());
    request.extensions_mut().insert(PeerAddr(SocketAddr::from((address, 4711))));
    request
}

/// Sends one request as a client would: once the service is ready.
async fn send<S>(service: &S, request: Request<Body>) -> Response<ResponseBody<Body>>
where
    S: Service<Request<Body>, Response = Response<ResponseBody<Body>>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

/// Sends requests one after another from one address, and returns their status codes.
async fn statuses<S>(service: &S, count: usize) -> Vec<u16>
where
    S: Service<Request<Body>, Response = Response<ResponseBody<Body>>, Error = Infallible> + Clone,
{
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(send(service, request_from("192.0.2.1")).await.status().as_u16());
    }
    statuses
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// Returns the only decision in these extensions.
fn decision(extensions: &http::Extensions) -> limiter_core::Decision {
    let decisions: Vec<_> = extensions.get::<Decisions>().unwrap().iter().collect();
    let [decided] = decisions.as_slice() else { panic!("one decision: {decisions:?}") };
    decided.decision()
}

type Limited<S> = limiter_tower::service::RateLimit<S>;

/// Returns a service behind two layers, without the inner layer's body.
fn nested(
    inner: RateLimitLayer,
    outer: RateLimitLayer,
) -> Limited<
    impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone,
> {
    let inner = inner.layer(service_fn(hello));
    outer.layer(service_fn(move |request| {
        let inner = inner.clone();
        async move { Ok(send(&inner, request).await.map(|_| Body::from("hello"))) }
    }))
}
