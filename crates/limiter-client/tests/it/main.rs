//! The behaviour of the layer, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod advice;
mod announced;
mod capped;
mod down;
mod hosts;
mod in_flight;
mod names;
mod observe;
mod queue;
mod redirect;
mod refused;
mod reset;
mod secrets;
mod server;
mod servers;
mod silence;
mod store;

use std::{
    convert::Infallible,
    error::Error as StdError,
    future::{pending, ready},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::Router;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header::HOST, header::HeaderName};
use limiter_client::{EventKind, NotSent, Spend, Throttle, ThrottleError, ThrottleLayer};
use limiter_core::{Clock, ErrorKind, MemoryLimiter, Policy, Quota, Timer, Timestamp};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};
use tower::{
    BoxError, Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn,
};

const SECOND: Duration = Duration::from_secs(1);

type Body = http_body_util::Full<Bytes>;

/// Tokio's clock, which a test pauses: then it jumps to the next moment that a task waits for.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.0.elapsed())
    }
}

impl Timer for TokioClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep(moment.saturating_since(self.now())))
    }
}

/// Returns a limiter by tokio's clock.
fn limiter(quota: Quota) -> MemoryLimiter<TokioClock> {
    let policy = Policy::gcra("outgoing", quota);
    MemoryLimiter::builder(policy).clock(TokioClock::new()).build().unwrap()
}

/// Returns a layer by the machine's clock.
fn layer(policy: Policy) -> ThrottleLayer {
    ThrottleLayer::new(policy).unwrap()
}

/// Returns a layer of this pace, by tokio's clock.
fn throttle(quota: Quota) -> ThrottleLayer {
    ThrottleLayer::with_limiter(limiter(quota)).unwrap()
}

/// A pace that no test reaches.
fn unlimited() -> ThrottleLayer {
    throttle(Quota::per_second(100_000))
}

/// Returns a layer, and the names of its events.
fn observed(layer: ThrottleLayer) -> (ThrottleLayer, Arc<Mutex<Vec<&'static str>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    (layer.observe(move |event| seen.lock().unwrap().push(event.kind.name())), events)
}

/// A server that answers as a closure says, and keeps when it was asked.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Instant, u16)>>>);

impl Log {
    fn add(&self, status: u16) {
        self.0.lock().unwrap().push((Instant::now(), status));
    }

    /// The moments of requests, from `start` on.
    fn since(&self, start: Instant) -> Vec<Duration> {
        self.0.lock().unwrap().iter().map(|(at, _)| *at - start).collect()
    }

    fn count(&self, status: u16) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, of)| *of == status).count()
    }
}

type Fields<'f> = &'f [(&'f str, &'f str)];

fn response(status: u16, fields: Fields<'_>) -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        response.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
    }
    response
}

/// Returns a client of a server that answers what `answer` returns for the n-th request, 10 ms later.
fn client(
    layer: &ThrottleLayer,
    log: &Log,
    answer: impl Fn(usize) -> Response<Body> + Clone + Send + Sync + 'static,
) -> Throttle<impl Server> {
    slow_client(layer, log, move |index| (Duration::from_millis(10), answer(index)))
}

/// Returns a client of a server that answers what `answer` returns for the n-th request, so much later.
fn slow_client(
    layer: &ThrottleLayer,
    log: &Log,
    answer: impl Fn(usize) -> (Duration, Response<Body>) + Clone + Send + Sync + 'static,
) -> Throttle<impl Server> {
    let log = log.clone();
    layer.layer(service_fn(move |_: Request<Body>| {
        let index = log.0.lock().unwrap().len();
        let (time, response) = answer(index);
        log.add(response.status().as_u16());
        async move {
            sleep(time).await;
            Ok::<_, Infallible>(response)
        }
    }))
}

/// What a client sends requests to.
trait Server:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Server for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

fn request_to(host: &str) -> Request<Body> {
    Request::get(format!("http://{host}/path")).body(Body::default()).unwrap()
}

async fn get<S: Server>(
    client: &Throttle<S>,
    host: &str,
) -> Result<u16, ThrottleError<Infallible>> {
    let response = client.clone().oneshot(request_to(host)).await;
    response.map(|response| response.status().as_u16())
}

/// Sends a request in the background.
fn spawn<S: Server>(client: &Throttle<S>) -> JoinHandle<Result<u16, ThrottleError<Infallible>>> {
    let client = client.clone();
    tokio::spawn(async move { get(&client, "a.example").await })
}

/// Lets all tasks run as far as they can.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

/// A service that answers 200 at once.
async fn ok(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(response(200, &[]))
}

/// Returns when the second of two requests was sent, after this response to the first.
async fn second_after(layer: &ThrottleLayer, first: Response<Body>) -> Duration {
    let (log, start) = (Log::default(), Instant::now());
    let status = first.status().as_u16();
    let client = client(layer, &log, move |index| match index {
        0 => first.clone(),
        _ => response(200, &[]),
    });
    assert_eq!(get(&client, "a.example").await.unwrap(), status);
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    log.since(start)[1]
}

/// Sends a request and then others from as many tasks, and returns the status of each.
async fn send_all<S: Server>(client: &Throttle<S>, host: &'static str, count: usize) -> Vec<u16> {
    let mut tasks = JoinSet::new();
    let first = get(client, host).await.unwrap();
    tasks.spawn(async move { first });
    for _ in 1..count {
        let client = client.clone();
        tasks.spawn(async move { get(&client, host).await.unwrap() });
    }
    tasks.join_all().await
}
