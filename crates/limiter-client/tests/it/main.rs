//! The behaviour of the layer, one file an area.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod announced;
mod cached;
mod capped;
mod down;
mod fields;
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
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderValue, Request, Response, header::HeaderName};
use limiter_client::{Throttle, ThrottleError, ThrottleLayer};
use limiter_core::{Clock, MemoryLimiter, Policy, Quota, Timer, Timestamp};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tower::{Layer, Service, ServiceExt, service_fn};

type Body = http_body_util::Full<bytes::Bytes>;

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

/// A pace that no test reaches.
fn unlimited() -> ThrottleLayer {
    ThrottleLayer::with_limiter(limiter(Quota::per_second(100_000))).unwrap()
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
