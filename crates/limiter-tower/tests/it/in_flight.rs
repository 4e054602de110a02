//! Limits on requests in flight, one file an area.

mod answers;
mod counter;
mod leaks;
mod losses;
mod order;
mod rules;
mod streams;
mod upgrades;

use std::{
    future::pending,
    task::{Context, Poll},
};

use http_body::{Body as _, Frame};
use limiter_tower::{
    in_flight::RequestPermit,
    service::{HeldBody, InFlightGate, ResponseFuture},
};

use self::counter::Counter;
use crate::*;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Result<Response<Stream>, Infallible>;
type Inner = tower::util::BoxCloneSyncService<Request<Body>, Response<Stream>, Infallible>;
type Limited = limiter_tower::service::Limited<Inner, InFlightGate>;

/// The body of the inner service: frames that the test chooses, or none yet.
#[derive(Debug, Default)]
struct Stream(Vec<Option<Result<Frame<Bytes>, BoxError>>>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.0.pop() {
            Some(Some(frame)) => Poll::Ready(Some(frame)),
            // Not ready yet, once.
            Some(None) => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns a body of these frames, the first one first.
fn stream<const N: usize>(frames: [Option<Frame<Bytes>>; N]) -> Stream {
    Stream(frames.into_iter().rev().map(|frame| frame.map(Ok)).collect())
}

fn data() -> Option<Frame<Bytes>> {
    Some(Frame::data(Bytes::from("data")))
}

/// Returns a rule of so many requests at once, for all keys together, and its limiter.
fn rule(limit: u32) -> (InFlightRule, Counter) {
    let counter = Counter::new("uploads", limit);
    (rule_of(&counter), counter)
}

/// Returns a rule for all keys together.
fn rule_of(counter: &Counter) -> InFlightRule {
    InFlightRule::new(counter.clone(), FixedKey::new("all"))
}

/// Returns a service behind a layer that has only this rule.
fn behind<F>(
    rule: &InFlightRule,
    serve: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> Limited
where
    F: Future<Output = Answer> + Send + 'static,
{
    behind_layer(&InFlightLayer::all([rule.clone()]), serve)
}

fn behind_layer<F>(
    layer: &InFlightLayer,
    serve: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> Limited
where
    F: Future<Output = Answer> + Send + 'static,
{
    layer.layer(Inner::new(service_fn(serve)))
}

/// An inner service that never answers.
async fn never(_: Request<Body>) -> Answer {
    pending().await
}

/// An inner service that answers with a body of two frames.
async fn two_frames(_: Request<Body>) -> Answer {
    Ok(Response::new(stream([data(), data()])))
}

/// An inner service that answers with an empty body.
async fn empty(_: Request<Body>) -> Answer {
    Ok(Response::new(Stream::default()))
}

async fn send(service: &Limited) -> Response<HeldBody<Stream>> {
    send_by(service, Method::GET).await
}

async fn send_by(service: &Limited, method: Method) -> Response<HeldBody<Stream>> {
    let mut request = Request::new(Body::default());
    *request.method_mut() = method;
    service.clone().oneshot(request).await.unwrap()
}

/// Returns a request that is in flight: its future, polled once.
fn start(service: &Limited) -> Pin<Box<ResponseFuture<Inner, Body, InFlightGate>>> {
    let mut future = Box::pin(service.clone().call(Request::new(Body::default())));
    assert!(poll_once(future.as_mut()).is_none(), "it waits for the inner service");
    future
}

/// Polls a body once. `None` is the end.
fn next(body: &mut HeldBody<Stream>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
}

/// Receives the kinds of the events of a rule.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Outcome>>>);

impl Events {
    fn of(rule: InFlightRule) -> (InFlightRule, Self) {
        let events = Self::default();
        let observed = events.clone();
        (rule.observe(move |event| observed.0.lock().unwrap().push(event.outcome)), events)
    }

    fn take(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().drain(..).map(Outcome::name).collect()
    }
}

fn permit_of(request: &Request<Body>) -> RequestPermit {
    request.extensions().get::<RequestPermit>().unwrap().clone()
}
