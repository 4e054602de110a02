//! The contract between tower and a middleware.

use std::{
    future::{Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use http_body::Body as _;

use crate::*;

/// Returns a limiter whose admissions are not ready at once.
fn slow(policy: Policy) -> impl Limiter {
    Fake::new(policy, || {
        LimiterFuture::pending(async {
            tokio::task::yield_now().await;
            Ok(Decision::admitted(Usage::new(10, 9, Duration::from_secs(6))))
        })
    })
}

/// A service that must be polled ready before each call, and whose clones are not ready.
#[derive(Default)]
struct Particular {
    ready: bool,
    readied: u32,
}

impl Clone for Particular {
    fn clone(&self) -> Self {
        Self { ready: false, readied: self.readied }
    }
}

impl Service<Request<Body>> for Particular {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.readied == 3 {
            return Poll::Ready(Err("no more than three"));
        }
        self.ready = true;
        self.readied += 1;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(self.ready, "called without being polled ready");
        self.ready = false;
        ready(Ok(Response::new(Body::from("hello"))))
    }
}

/// Returns the results of four calls.
async fn four_calls(limiter: impl Limiter + 'static) -> Vec<Result<StatusCode, &'static str>> {
    let mut service = per_address(limiter).layer(Particular::default());
    let mut results = Vec::new();
    for _ in 0..4 {
        let response = service.ready().await.unwrap().call(request()).await;
        results.push(response.map(|response| response.status()));
    }
    results
}

#[tokio::test]
async fn only_the_service_that_was_polled_ready_is_called() {
    let quota = Quota::per_minute(10);
    // The inner service's error, of its own type.
    let once_ready =
        [Ok(StatusCode::OK), Ok(StatusCode::OK), Ok(StatusCode::OK), Err("no more than three")];
    assert_eq!(four_calls(limiter(quota).0).await, once_ready);
    // Each has a clone.
    let slow = slow(Policy::gcra("default", quota));
    assert_eq!(four_calls(slow).await, [Ok(StatusCode::OK); 4]);
}

#[tokio::test]
async fn a_request_that_is_dropped_before_its_decision_calls_nothing() {
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let mut service = per_address(slow(policy)).layer(Particular::default());
    drop(service.ready().await.unwrap().call(request()));
    let again = service.ready().await.unwrap().call(request()).await;
    assert_eq!(again.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn bodies_have_an_exact_length_and_an_end() {
    let service = layer().0.layer(service_fn(hello));
    for (requests, length) in [(1, "hello".len()), (10, "rate limit exceeded\n".len())] {
        let mut last = None;
        for _ in 0..requests {
            last = Some(send(&service, request()).await.into_body());
        }
        let mut body = pin!(last.unwrap());
        assert!(!body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(length as u64));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) else {
            panic!("a frame");
        };
        assert_eq!(frame.into_data().unwrap().len(), length);
        assert!(body.is_end_stream());
        assert!(matches!(body.as_mut().poll_frame(&mut context), Poll::Ready(None)));
    }
}
