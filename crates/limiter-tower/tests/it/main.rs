//! The behaviour of the layer, one file an area.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod abuse;
mod addresses;
mod allocations;
mod blocks;
mod bodies;
mod charging_after;
mod debugging;
mod dialect_choices;
mod dialects;
mod disclosure;
mod extractors;
mod failures;
mod fields;
mod grpc;
mod grpc_refusals;
mod http2;
mod in_flight;
mod inside;
mod joint;
mod joint_waiting;
mod keep_alive;
mod keys;
mod laws;
mod metrics;
mod next_draft;
mod operation;
mod placement;
mod plans;
mod random_fields;
mod readiness;
mod refusals;
mod rules;
mod server;
mod settling;
mod setup;
mod several_stores;
mod sharing;
mod structured;
mod tower_contract;
mod trust;
mod waiting;

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::Full;
use limiter_core::{
    Block, Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, ManualClock,
    MemoryLimiter, Policy, Quota, Source, Usage,
};
use limiter_rig::log::Log;
use limiter_test::{deferred::Deferred, fake::Fake};
use limiter_tower::{
    Answers, ClientIp, InFlightLayer, InFlightRule, RateLimitLayer, Rule,
    headers::{Headers, Reset},
    key::{
        ExtensionKey, FixedKey, Head, HeaderKey, KeyExtractor, KeySource, MaybeKey, MissingKey,
        PeerAddr, key_fn,
    },
    observe::{Decisions, Outcome},
    plan::{Plan, Plans},
    refusal::{Reason, problem_json},
    rule::{Disclosure, Keep, Mode, OnStoreFailure, Strike, Wait},
    service::{Rates, SameBody},
    settle::{Charge, ResponseHead},
};
use serde_json::{Value, json};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

type Body = Full<Bytes>;

type Memory = MemoryLimiter<ManualClock>;

/// Returns a limiter of `quota`, and its clock, which does not move.
fn limiter(quota: Quota) -> (Memory, ManualClock) {
    limiter_of(Policy::gcra("default", quota))
}

/// Returns a limiter of so many permits an hour.
fn hourly(name: &str, permits: u64) -> Memory {
    limiter_of(Policy::gcra(name, Quota::per_hour(permits))).0
}

fn limiter_of(policy: Policy) -> (Memory, ManualClock) {
    let clock = ManualClock::new();
    let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap();
    (limiter, clock)
}

/// Returns a limiter of ten permits a minute, named `default`, whose checks return this.
fn returning(result: Result<Decision, ErrorKind>) -> impl Limiter {
    Fake::new(Policy::gcra("default", Quota::per_minute(10)), move || {
        LimiterFuture::ready(result.map_err(|kind| Error::new(kind, "no connection")))
    })
}

/// Returns a limiter in a store that fails.
fn failing(name: &str) -> Deferred {
    let store = Deferred::new(hourly(name, 9));
    store.set_failing(true);
    store
}

/// Returns how many permits are used of the key `all`.
fn used(limiter: &Memory) -> u64 {
    limiter.peek("all").used()
}

/// Returns a layer of ten permits a minute, and its clock, which does not move.
fn layer() -> (RateLimitLayer, ManualClock) {
    let (limiter, clock) = limiter(Quota::per_minute(10));
    (per_address(limiter), clock)
}

/// Returns a rule that counts requests by the peer's address.
fn by_address(limiter: impl Limiter + 'static) -> Rule {
    Rule::new(limiter, ClientIp::peer())
}

/// Returns a rule that counts all requests under the key `all`.
fn for_all(limiter: impl Limiter + 'static) -> Rule {
    Rule::new(limiter, FixedKey::new("all"))
}

/// Returns a layer of these rules, which shows its decisions.
fn layer_of<const N: usize>(rules: [Rule; N]) -> RateLimitLayer {
    RateLimitLayer::all(rules).decisions()
}

/// Returns a layer that counts requests by the peer's address.
fn per_address(limiter: impl Limiter + 'static) -> RateLimitLayer {
    layer_of([by_address(limiter)])
}

/// The inner service: responds with `hello`.
async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

/// Where requests are from, unless a test says otherwise.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn request() -> Request<Body> {
    request_from("192.0.2.1")
}

fn request_from(address: &str) -> Request<Body> {
    let address: IpAddr = address.parse().unwrap();
    let mut request = Request::new(Body::default());
    request.extensions_mut().insert(PeerAddr(SocketAddr::from((address, 4711))));
    request
}

/// Another inner service: responds with the status that a request has in its field `x-status`, or with 200.
async fn named(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let status = request.headers().get("x-status").and_then(|it| it.to_str().ok()?.parse().ok());
    let mut response = Response::new(Body::default());
    *response.status_mut() = status.unwrap_or(StatusCode::OK);
    Ok(response)
}

/// Returns a request that the service [`named`] answers with this status.
fn request_for(status: u16) -> Request<Body> {
    with(request(), "x-status", &status.to_string())
}

/// Returns a request for a path.
fn request_to(path: &str) -> Request<Body> {
    let mut request = request();
    *request.uri_mut() = path.parse().unwrap();
    request
}

/// Returns a request with one more line of a header field.
fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// Returns a gRPC call.
fn grpc_call() -> Request<Body> {
    let mut request = with(request(), "content-type", "application/grpc");
    *request.method_mut() = Method::POST;
    request
}

/// What tests send requests to.
trait Served: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone {}

impl<S> Served for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone
{
}

/// Sends one request as a client would: once the service is ready.
async fn send(service: &impl Served, request: Request<Body>) -> Response<Body> {
    service.clone().oneshot(request).await.unwrap()
}

/// Sends requests one after another from one address, and returns their status codes.
async fn statuses(service: &impl Served, count: usize) -> Vec<u16> {
    sent(service, (0..count).map(|_| request())).await
}

/// Sends requests one after another, and returns their status codes.
async fn sent(
    service: &impl Served,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Vec<u16> {
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(send(service, request).await.status().as_u16());
    }
    statuses
}

/// Requests paths of a router one after another, and returns the status codes.
async fn routed<const N: usize>(app: &Router, paths: [&str; N]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for path in paths {
        let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
        statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    statuses
}

/// The rules and outcomes of events, such as `api denied`.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn of(layer: RateLimitLayer) -> (RateLimitLayer, Self) {
        let events = Self::default();
        let seen = events.clone();
        let layer = layer.observe(move |event| {
            seen.0.lock().unwrap().push(format!("{} {}", event.rule, event.outcome.name()));
        });
        (layer, events)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Returns the outcomes of a rule.
    fn of_rule(&self, rule: &str) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let of = events.iter().filter_map(|event| event.strip_prefix(rule)?.strip_prefix(' '));
        of.map(str::to_owned).collect()
    }
}

/// Returns the body of a response.
async fn text<B>(response: Response<B>) -> String
where
    B: http_body::Body<Error: std::fmt::Debug>,
{
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    String::from_utf8(body.into()).unwrap()
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// Polls a future once.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

type Limited<S> = limiter_tower::service::Limited<S, Rates<SameBody>>;

/// Returns a service behind two layers, without the inner layer's body.
fn nested(inner: RateLimitLayer, outer: RateLimitLayer) -> Limited<impl Served<Future: Send>> {
    let inner = inner.layer(service_fn(hello));
    outer.layer(service_fn(move |request| {
        let inner = inner.clone();
        async move { Ok(send(&inner, request).await.map(|_| Body::from("hello"))) }
    }))
}
