//! The future of a response.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    Charge, Decisions, Head,
    charge::Charges,
    config::Config,
    request_check::{RequestCheck, Verdict},
    respond::{ResponseHead, body::ResponseBody, describe, insert},
};

pin_project! {
    /// The future of [`RateLimit`](crate::RateLimit).
    ///
    /// If it is dropped before the inner service has the request, charges are refunded. Only a charge
    /// that a store is making at that moment may stay.
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
        /// Waits for the inner service.
        Calling { #[pin] calling: Calling<F> },
        /// Has a response without the inner service.
        Answered { response: Response<Bytes> },
    }
}

/// A request that is not decided yet.
struct Deciding<S, B> {
    check: RequestCheck,
    service: S,
    request: Request<B>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The service was polled ready.
    Checking,
    /// The service was not polled ready: a ready one may hold a permit of an inner concurrency limit,
    /// or of a pool, while the request waits for its own.
    Waiting,
    /// The request is admitted, and the service was not polled ready.
    Readying,
}

impl<S, B> Deciding<S, B>
where
    S: Service<Request<B>> + Clone,
{
    /// Returns the response to a request that is not admitted, or nothing once it is admitted and the
    /// service is ready.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Response<Bytes>>, S::Error>> {
        if self.stage != Stage::Readying {
            match self.check.poll(Head::from(&self.request), cx) {
                Poll::Ready(Verdict::Answer(response)) => return Poll::Ready(Ok(Some(response))),
                Poll::Ready(Verdict::Forward) if self.stage == Stage::Checking => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Verdict::Forward) => self.stage = Stage::Readying,
                Poll::Pending => {
                    if self.stage == Stage::Checking && self.check.is_waiting() {
                        self.service = self.service.clone();
                        self.stage = Stage::Waiting;
                    }
                    return Poll::Pending;
                }
            }
        }
        self.service.poll_ready(cx).map_ok(|()| None)
    }
}

impl<S, B> Deciding<S, B>
where
    S: Service<Request<B>>,
{
    fn call(self) -> Calling<S::Future> {
        let Self { check, mut service, request, .. } = self;
        let config = Arc::clone(check.config());
        let (decisions, charges) = check.admit();
        Calling::new(&config, &mut service, request, decisions, charges)
    }
}

pin_project! {
    /// The inner service's future, and what is to be done with its response.
    pub(crate) struct Calling<F> {
        #[pin]
        inner: F,
        after: Option<After>,
    }
}

/// What is to be done with the inner service's response.
struct After {
    config: Arc<Config>,
    decisions: Decisions,
    charge: Option<Charge>,
}

impl<F> Calling<F> {
    pub(crate) const fn plain(inner: F) -> Self {
        Self { inner, after: None }
    }

    /// Hands an admitted request over to the inner service, which is ready.
    pub(crate) fn new<S, B>(
        config: &Arc<Config>,
        service: &mut S,
        mut request: Request<B>,
        decisions: Decisions,
        charges: Charges,
    ) -> Self
    where
        S: Service<Request<B>, Future = F>,
    {
        if !config.describes() {
            return Self::plain(service.call(request));
        }
        if config.has_decisions {
            insert(config, decisions.clone(), request.extensions_mut());
        }
        let outer = request.extensions().get::<Charge>();
        let charge = config.has_charge().then(|| Charge::new(charges, outer));
        if let Some(charge) = &charge {
            request.extensions_mut().insert(charge.clone());
        }
        let after = After { config: Arc::clone(config), decisions, charge };
        Self { inner: service.call(request), after: Some(after) }
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    /// `service` was polled ready, unless the check waits for permits.
    pub(crate) fn deciding(check: RequestCheck, service: S, request: Request<B>) -> Self {
        let stage = if check.is_waiting() { Stage::Waiting } else { Stage::Checking };
        let deciding = Deciding { check, service, request, stage };
        Self { state: State::Deciding { deciding: Some(Box::new(deciding)) } }
    }

    pub(crate) const fn calling(calling: Calling<S::Future>) -> Self {
        Self { state: State::Calling { calling } }
    }

    pub(crate) const fn answered(response: Response<Bytes>) -> Self {
        Self { state: State::Answered { response } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Deciding { deciding } => {
                    let Some(undecided) = deciding else {
                        // Like any future, pending for ever when polled after it has completed.
                        return Poll::Pending;
                    };
                    let decided = ready!(undecided.poll(cx));
                    let Some(admitted) = deciding.take() else {
                        return Poll::Pending;
                    };
                    match decided? {
                        Some(response) => state.set(State::Answered { response }),
                        None => state.set(State::Calling { calling: admitted.call() }),
                    }
                }
                StateProjection::Calling { calling } => return calling.poll(cx),
                StateProjection::Answered { response } => {
                    let response = mem::take(response);
                    state.set(State::Deciding { deciding: None });
                    return Poll::Ready(Ok(response.map(ResponseBody::answer)));
                }
            }
        }
    }
}

impl<F, R, E> Future for Calling<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        if let Some(After { config, decisions, charge }) = this.after.take() {
            if let (Some(charge), Some(settle)) = (charge, &config.settle) {
                charge.settle(settle(ResponseHead::from(&response)));
            }
            describe(&config, decisions, &mut response);
        }
        Poll::Ready(Ok(response.map(ResponseBody::inner)))
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Deciding { deciding: Some(deciding) } => match deciding.stage {
                Stage::Checking => "Checking",
                Stage::Waiting => "Waiting",
                Stage::Readying => "Readying",
            },
            State::Deciding { deciding: None } => "Done",
            State::Calling { .. } => "Calling",
            State::Answered { .. } => "Answered",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
