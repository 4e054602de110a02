//! The future of a response.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    after::After, body::ResponseBody, config::Config, entering::PendingEntering, key::Head,
    verdict::Verdict,
};

pin_project! {
    /// The future of [`RateLimit`](crate::service::RateLimit).
    ///
    /// This future stays pending if it is polled after it was ready. If it is dropped, charges stay: a client that resets its requests is limited like any other. A
    /// request that waits gives its place and the permits that it waits for back, and a request in flight gives its permit
    /// back.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        /// Waits for the limiters, and after a delay for the inner service to be ready. In a box,
        /// because a limiter in memory decides at once: then this state is not reached.
        Deciding { deciding: Option<Box<Deciding<S, B>>> },
        /// Waits for the inner service. Its future is dropped before the permits of a request in flight are given back.
        Calling { #[pin] inner: F, after: Option<Box<After>> },
        /// Has a response without the inner service.
        Answered { response: Option<Response<Bytes>> },
    }
}

/// A request that is not decided yet, or whose service is not ready.
struct Deciding<S, B> {
    config: Arc<Config>,
    /// `None` once the request is admitted.
    pending: Option<Box<PendingEntering>>,
    service: S,
    /// Whether the service was polled ready. It is not while the request waits for permits, because a ready one may hold
    /// a permit of an inner concurrency limit, or of a pool.
    is_ready: bool,
    request: Request<B>,
    /// What follows once the request is admitted.
    after: Option<Box<After>>,
}

impl<S, B> Deciding<S, B>
where
    S: Service<Request<B>> + Clone,
{
    /// Returns the response to a request that is not admitted, or nothing once it is admitted and the
    /// service is ready.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Response<Bytes>>, S::Error>> {
        if let Some(pending) = &mut self.pending {
            let head = Head::from(&self.request);
            let Poll::Ready(entering) = pending.poll(cx) else {
                if self.is_ready && pending.is_waiting() {
                    self.service = self.service.clone();
                    self.is_ready = false;
                }
                return Poll::Pending;
            };
            self.pending = None;
            match self.config.conclude(entering, head) {
                Verdict::Forward(after) => self.after = after,
                Verdict::Answer(response) => return Poll::Ready(Ok(Some(response))),
            }
        }
        if !self.is_ready {
            let ready = self.service.poll_ready(cx);
            if let Poll::Ready(Err(_)) = &ready {
                // What was charged is refunded.
                if let Some(after) = &self.after {
                    after.refund();
                }
            }
            ready!(ready)?;
        }
        Poll::Ready(Ok(None))
    }
}

impl<S, B> Deciding<S, B>
where
    S: Service<Request<B>>,
{
    /// Passes the admitted request to the inner service, which is ready.
    fn call(mut self) -> State<S, B, S::Future> {
        if let Some(after) = &mut self.after {
            after.enter(self.request.extensions_mut());
        }
        State::Calling { inner: self.service.call(self.request), after: self.after }
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    /// `service` was polled ready.
    pub(crate) fn deciding(
        config: Arc<Config>,
        pending: Box<PendingEntering>,
        service: S,
        request: Request<B>,
    ) -> Self {
        let pending = Some(pending);
        let deciding = Deciding { config, pending, service, is_ready: true, request, after: None };
        Self { state: State::Deciding { deciding: Some(Box::new(deciding)) } }
    }

    pub(crate) const fn calling(inner: S::Future, after: Option<Box<After>>) -> Self {
        Self { state: State::Calling { inner, after } }
    }

    pub(crate) const fn answered(response: Response<Bytes>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Deciding { deciding } => {
                    let Some(undecided) = deciding else {
                        // It was polled after it has completed.
                        return Poll::Pending;
                    };
                    let decided = ready!(undecided.poll(cx));
                    let Some(admitted) = deciding.take() else {
                        return Poll::Pending;
                    };
                    state.set(match decided? {
                        Some(response) => State::Answered { response: Some(response) },
                        None => admitted.call(),
                    });
                }
                StateProjection::Calling { inner, after } => {
                    // Before the inner future, because the process may have been stopped since it was last polled.
                    if let Some(response) = after.as_mut().and_then(|after| after.ended(cx)) {
                        state.set(State::Answered { response: Some(response) });
                        continue;
                    }
                    let result = ready!(inner.poll(cx));
                    // If the inner service has failed, permits are given back now.
                    let after = after.take();
                    return Poll::Ready(result.map(|mut response| {
                        let hold = after.and_then(|after| after.leave(&mut response));
                        response.map(|body| ResponseBody::new(body, hold))
                    }));
                }
                StateProjection::Answered { response } => {
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response.map(ResponseBody::answer))),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Deciding { deciding: Some(deciding) } if deciding.pending.is_none() => {
                "Readying"
            }
            State::Deciding { deciding: Some(deciding) } if deciding.is_ready => "Checking",
            State::Deciding { deciding: Some(_) } => "Waiting",
            State::Calling { .. } => "Calling",
            State::Answered { response: Some(_) } => "Answered",
            State::Deciding { deciding: None } | State::Answered { response: None } => "Done",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
