//! The response on its way.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use limiter_core::{Answer, Decision};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    body::ResponseBody,
    responder::{Judgement, Responder},
};

pin_project! {
    /// The future of [`RateLimit`](crate::RateLimit).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, Q>
    where
        S: Service<Q>,
    {
        #[pin]
        state: State<S, Q, S::Future>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = TakenState]
    enum State<S, Q, F> {
        /// Waits for the decision, with the service that was polled ready and the request.
        Deciding { check: Answer<Decision>, ready: S, request: Q, responder: Arc<Responder> },
        /// Waits for the inner service.
        Calling {
            #[pin]
            inner: F,
            // None for a request that goes uncounted.
            decision: Option<Decision>,
            responder: Arc<Responder>,
        },
        /// Has an answer without the inner service.
        Answered { answer: Response<Bytes> },
        /// Has completed.
        Done,
    }
}

impl<S: Service<Q>, Q> ResponseFuture<S, Q> {
    pub(crate) const fn deciding(
        check: Answer<Decision>,
        ready: S,
        request: Q,
        responder: Arc<Responder>,
    ) -> Self {
        Self { state: State::Deciding { check, ready, request, responder } }
    }

    pub(crate) const fn calling(
        inner: S::Future,
        decision: Option<Decision>,
        responder: Arc<Responder>,
    ) -> Self {
        Self { state: State::Calling { inner, decision, responder } }
    }

    pub(crate) const fn answered(answer: Response<Bytes>) -> Self {
        Self { state: State::Answered { answer } }
    }
}

/// Lets handlers see the decision.
pub(crate) fn with_decision<B>(mut request: Request<B>, decision: Option<Decision>) -> Request<B> {
    if let Some(decision) = decision {
        request.extensions_mut().insert(decision);
    }
    request
}

impl<S, B, R> Future for ResponseFuture<S, Request<B>>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Deciding { check, .. } => {
                    let result = ready!(Pin::new(check).poll(cx));
                    let taken = state.as_mut().project_replace(State::Done);
                    let TakenState::Deciding { mut ready, request, responder, .. } = taken else {
                        return Poll::Pending;
                    };
                    state.set(match responder.judge(result) {
                        Judgement::Forward(decision) => {
                            let inner = ready.call(with_decision(request, decision));
                            State::Calling { inner, decision, responder }
                        }
                        Judgement::Answer(answer) => State::Answered { answer },
                    });
                }
                StateProjection::Calling { inner, decision, responder } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some(decision) = decision {
                        responder.describe(*decision, &mut response);
                    }
                    return Poll::Ready(Ok(response.map(ResponseBody::inner)));
                }
                StateProjection::Answered { .. } => {
                    let TakenState::Answered { answer } = state.project_replace(State::Done) else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(Ok(answer.map(ResponseBody::answer)));
                }
                // Like any future, pending for ever when polled after it has completed.
                StateProjection::Done => return Poll::Pending,
            }
        }
    }
}

impl<S: Service<Q>, Q> fmt::Debug for ResponseFuture<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Deciding { .. } => "Deciding",
            State::Calling { .. } => "Calling",
            State::Answered { .. } => "Answered",
            State::Done => "Done",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
