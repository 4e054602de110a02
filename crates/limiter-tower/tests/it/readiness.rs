//! The limit decides before the inner service is asked whether it is ready.

use std::{
    future::{Ready, pending, ready},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    task::{Context, Poll},
};

use limiter_core::InFlight;
use tower::limit::ConcurrencyLimitLayer;

use crate::*;

fn two_an_hour() -> RateLimitLayer {
    RateLimitLayer::all([for_all(limiter_of(Policy::gcra("api", Quota::per_hour(2))).0)])
}

type Call<T, E> = Pin<Box<dyn Future<Output = Result<Response<T>, E>>>>;

/// Calls a service as a server does: once it is ready.
fn start<S, T>(service: &mut S) -> Call<T, S::Error>
where
    S: Service<Request<Body>, Response = Response<T>, Future: 'static>,
{
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    Box::pin(service.call(request()))
}

#[tokio::test]
async fn a_saturated_service_hides_no_refusal() {
    let busy = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(|_| pending::<Result<Response<Body>, Infallible>>()));
    let mut service = two_an_hour().layer(busy);
    let mut first = start(&mut service);
    let mut second = start(&mut service);
    assert!(poll_once(first.as_mut()).is_none() && poll_once(second.as_mut()).is_none());
    let refused = poll_once(start(&mut service).as_mut()).unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn an_admitted_request_waits_for_a_service_that_is_busy() {
    let inner = ConcurrencyLimitLayer::new(1).layer(service_fn(hello));
    let mut busy = inner.clone();
    busy.ready().await.unwrap();
    let in_flight = InFlightLayer::new(InFlight::new("all", 1).unwrap(), FixedKey::new("all"));
    let mut service = two_an_hour().any_body().layer(in_flight.layer(inner));
    let mut call = start(&mut service);
    assert!(poll_once(call.as_mut()).is_none());
    // It holds its permit meanwhile, so the next one is refused.
    assert_eq!(start(&mut service).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    drop(busy);
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);
}

/// A layer that sheds belongs inside, around the limit that is busy.
#[tokio::test]
async fn a_load_shed_sheds_inside_of_the_layer_and_not_outside() {
    let busy = ConcurrencyLimitLayer::new(1).layer(service_fn(hello));
    let mut holder = busy.clone();
    holder.ready().await.unwrap();
    let mut inside = ServiceBuilder::new().layer(two_an_hour()).load_shed().service(busy.clone());
    let shed = poll_once(start(&mut inside).as_mut()).unwrap().unwrap_err();
    assert!(shed.is::<tower::load_shed::error::Overloaded>());
    let mut outside = ServiceBuilder::new().load_shed().layer(two_an_hour()).service(busy);
    assert!(poll_once(start(&mut outside).as_mut()).is_none());
}

/// Counts its clones.
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::default()))
    }
}

#[tokio::test]
async fn a_service_that_is_ready_is_not_cloned() {
    let clones = Arc::default();
    let several =
        ["one", "two"].map(|name| for_all(limiter_of(Policy::gcra(name, Quota::per_hour(2))).0));
    let inner = InFlightLayer::new(InFlight::new("all", 1).unwrap(), FixedKey::new("all"))
        .layer(Counted(Arc::clone(&clones)));
    let inner = RateLimitLayer::all(several).any_body().layer(inner);
    let mut service = two_an_hour().any_body().layer(inner);
    for status in [200, 200, 429] {
        assert_eq!(start(&mut service).await.unwrap().status(), status);
    }
    assert_eq!(clones.load(Relaxed), 0);
}

#[tokio::test]
async fn a_future_that_was_ready_is_done() {
    let mut service = two_an_hour().layer(service_fn(hello));
    for _ in 0..3 {
        let mut call = Box::pin(service.call(request()));
        assert!(poll_once(call.as_mut()).is_some());
        for _ in 0..2 {
            assert!(poll_once(call.as_mut()).is_none());
        }
        assert!(format!("{call:?}").contains("Done"), "{call:?}");
    }
}
