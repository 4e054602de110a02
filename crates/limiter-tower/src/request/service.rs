//! The service that a layer makes.

use std::{
    mem,
    task::{Context, Poll, Waker},
};

use http::{Request, Response};
use tower_service::Service;

use super::{
    future::{Readying, ResponseFuture, State},
    gate::{After, Gate, Respond, Verdict},
};
use crate::head::Head;

/// A service whose requests are limited.
///
/// It is always ready, and decides before it asks the inner service whether that is: so a refusal never waits for a
/// service that is busy, and a request that waits for its decision holds none of the inner service's places. A refusal is
/// a response, so errors are the inner service's.
///
/// A request whose decision, or whose inner service, is not ready at once needs a clone of the inner service; put a service
/// that can't be cloned behind a `tower::buffer::Buffer`.
#[derive(Clone, Debug)]
pub struct Limited<S, G> {
    inner: S,
    gate: G,
}

impl<S, G> Limited<S, G> {
    pub(crate) const fn new(inner: S, gate: G) -> Self {
        Self { inner, gate }
    }

    /// Returns the inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R, G> Service<Request<B>> for Limited<S, G>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    G: Respond<R>,
{
    type Response = Response<G::Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, G>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if let Some(verdict) = self.gate.decide_now(Head::from(&request)) {
            return self.proceed(verdict, request);
        }
        let (parts, body) = request.into_parts();
        let mut deciding = self.gate.decide(parts);
        // Limiters in memory have decided at the first poll. Whatever is not ready is polled again by the future, with the
        // task's waker.
        match deciding.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((parts, verdict)) => {
                self.proceed(verdict, Request::from_parts(parts, body))
            }
            Poll::Pending => {
                let undecided = Some((body, self.inner.clone()));
                ResponseFuture::new(State::Deciding { deciding, undecided })
            }
        }
    }
}

impl<S, G> Limited<S, G> {
    /// Forwards or answers a request that is decided.
    #[inline(always)]
    fn proceed<B>(
        &mut self,
        verdict: Verdict<G::After>,
        mut request: Request<B>,
    ) -> ResponseFuture<S, B, G>
    where
        S: Service<Request<B>> + Clone,
        G: Gate,
    {
        let mut after = match verdict {
            Verdict::Forward(after) => after,
            Verdict::Answer(response) => {
                return ResponseFuture::new(State::Answered { response: Some(response) });
            }
        };
        after.enter(request.extensions_mut());
        let ready = self.inner.poll_ready(&mut Context::from_waker(Waker::noop()));
        ResponseFuture::new(match ready {
            Poll::Ready(Ok(())) => State::Calling { inner: self.inner.call(request), after },
            Poll::Ready(Err(error)) => {
                after.undo();
                State::Failed { error: Some(error) }
            }
            // The service that was polled goes with the request, and a clone stays.
            Poll::Pending => {
                let clone = self.inner.clone();
                let service = mem::replace(&mut self.inner, clone);
                let readying = Readying { service, request, after };
                State::Readying { readying: Some(Box::new(readying)) }
            }
        })
    }
}
