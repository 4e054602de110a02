//! The future of a response.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::gate::{After, Deciding, Gate, Respond, Verdict};

pin_project! {
    /// The future of [`Limited`](crate::service::Limited).
    ///
    /// Polled after it was ready, it stays pending. If it is dropped, charges stay: a client that resets its requests is
    /// limited like any other. The permits that a request waits for, and those of a request in flight, are given back.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B, G>
    where
        S: Service<Request<B>>,
        G: Gate,
    {
        #[pin]
        state: State<S, B, G::After, S::Future, S::Error>,
    }
}

pin_project! {
    #[project = StateProjection]
    pub(super) enum State<S, B, A, F, E> {
        /// Waits for the decision. The service was not polled, because a ready one may hold a permit of an inner concurrency
        /// limit, or of a pool. `None` once the request is decided.
        Deciding { deciding: Deciding<A>, undecided: Option<(B, S)> },
        /// Is admitted, and waits for the service to be ready. In a box, because mostly it is ready at once.
        Readying { readying: Option<Box<Readying<S, B, A>>> },
        /// Waits for the inner service. Its future is dropped before the permits of a request in flight are given back.
        Calling { #[pin] inner: F, after: A },
        /// Has a response without the inner service.
        Answered { response: Option<Response<Bytes>> },
        /// The inner service has failed to become ready.
        Failed { error: Option<E> },
        /// Was ready.
        Done,
    }
}

/// A request that is admitted.
pub(super) struct Readying<S, B, A> {
    pub(super) service: S,
    pub(super) request: Request<B>,
    pub(super) after: A,
}

impl<S: Service<Request<B>>, B, G: Gate> ResponseFuture<S, B, G> {
    #[inline]
    pub(super) const fn new(state: State<S, B, G::After, S::Future, S::Error>) -> Self {
        Self { state }
    }
}

impl<S, B, R, G> Future for ResponseFuture<S, B, G>
where
    S: Service<Request<B>, Response = Response<R>>,
    G: Respond<R>,
{
    type Output = Result<Response<G::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Deciding { deciding, undecided } => {
                    let (parts, verdict) = ready!(deciding.as_mut().poll(cx));
                    match (verdict, undecided.take()) {
                        (Verdict::Answer(response), _) => {
                            State::Answered { response: Some(response) }
                        }
                        (Verdict::Forward(mut after), Some((body, service))) => {
                            let mut request = Request::from_parts(parts, body);
                            after.enter(request.extensions_mut());
                            let readying = Readying { service, request, after };
                            State::Readying { readying: Some(Box::new(readying)) }
                        }
                        (Verdict::Forward(_), None) => State::Done,
                    }
                }
                StateProjection::Readying { readying } => {
                    let Some(waiting) = readying else { return Poll::Pending };
                    if let Some(response) = waiting.after.ended(cx) {
                        state.set(State::Answered { response: Some(response) });
                        continue;
                    }
                    let ready = ready!(waiting.service.poll_ready(cx));
                    match (ready, readying.take()) {
                        (Ok(()), Some(ready)) => {
                            let Readying { mut service, request, after } = *ready;
                            State::Calling { inner: service.call(request), after }
                        }
                        (Err(error), Some(failed)) => {
                            failed.after.undo();
                            State::Failed { error: Some(error) }
                        }
                        (_, None) => State::Done,
                    }
                }
                StateProjection::Calling { inner, after } => {
                    // Before the inner future, because the process may have been stopped since it was last polled.
                    if let Some(response) = after.ended(cx) {
                        state.set(State::Answered { response: Some(response) });
                        continue;
                    }
                    let result = ready!(inner.poll(cx)).map(|response| G::leave(after, response));
                    // If the inner service has failed, permits are given back now.
                    state.set(State::Done);
                    return Poll::Ready(result);
                }
                StateProjection::Answered { response } => {
                    let response = response.take();
                    return response.map_or(Poll::Pending, |it| Poll::Ready(Ok(G::answer(it))));
                }
                StateProjection::Failed { error } => {
                    return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
                StateProjection::Done => return Poll::Pending,
            };
            state.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B, G: Gate> fmt::Debug for ResponseFuture<S, B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Deciding { .. } => "Deciding",
            State::Readying { .. } => "Readying",
            State::Calling { .. } => "Calling",
            State::Answered { response: Some(_) } => "Answered",
            State::Failed { error: Some(_) } => "Failed",
            State::Answered { .. } | State::Failed { .. } | State::Done => "Done",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
