//! The future of a response.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Extensions, Request, Response};
use limiter_core::{Cost, Decision};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    config::{Config, SettleFn},
    handle::Refused,
    headers::Headers,
    key::Head,
    observe::{Decisions, PolicyDecision},
    plan::Plan,
    request_check::RequestCheck,
    respond::{Reported, ResponseFields, ResponseHead, body::ResponseBody, insert},
    rule::{Disclosure, Rule},
    settle::{Charge, Charges},
};

pin_project! {
    /// The future of [`RateLimit`](crate::service::RateLimit).
    ///
    /// If it is dropped, charges stay: a client that resets its requests is limited like any other. A
    /// request that waits gives its place and the permits that it waits for back.
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
        Calling { #[pin] inner: F, after: Option<Box<After>> },
        /// Has a response without the inner service.
        Answered { refused: Option<Refused> },
    }
}

/// A request that is not decided yet.
struct Deciding<S, B> {
    check: RequestCheck,
    service: S,
    request: Request<B>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
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
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Refused>, S::Error>> {
        if self.phase != Phase::Readying {
            match self.check.poll(Head::from(&self.request), cx) {
                Poll::Ready(Err(refused)) => return Poll::Ready(Ok(Some(refused))),
                Poll::Ready(Ok(())) if self.phase == Phase::Checking => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(())) => self.phase = Phase::Readying,
                Poll::Pending => {
                    if self.phase == Phase::Checking && self.check.is_waiting() {
                        self.service = self.service.clone();
                        self.phase = Phase::Waiting;
                    }
                    return Poll::Pending;
                }
            }
        }
        let ready = self.service.poll_ready(cx);
        if matches!(ready, Poll::Ready(Err(_))) {
            self.check.refund();
        }
        ready.map_ok(|()| None)
    }
}

impl<S, B> Deciding<S, B>
where
    S: Service<Request<B>>,
{
    /// Hands the admitted request over to the inner service, which is ready.
    fn call(mut self) -> State<S, B, S::Future> {
        let mut after = self.check.admit();
        if let Some(after) = &mut after {
            after.enter(self.request.extensions_mut());
        }
        State::Calling { inner: self.service.call(self.request), after }
    }
}

/// What is to be done with the inner service's response. In a box, because it is larger than the rest.
pub(crate) struct After {
    fields: Option<ResponseFields>,
    /// In a box of its own, because most layers have nothing but fields.
    rest: Option<Box<Rest>>,
}

struct Rest {
    /// For handlers and outer layers, and for the fields after a settlement.
    decisions: Decisions,
    /// Whether handlers and outer layers see the decisions.
    shows_decisions: bool,
    charge: Option<Charge>,
    settle: Option<SettleFn>,
    headers: Headers,
}

impl After {
    /// Returns what the configuration demands.
    pub(crate) fn new(
        config: &Config,
        decisions: Decisions,
        charges: Charges,
    ) -> Option<Box<Self>> {
        let fields = config.headers.fields(decisions.reported());
        let charge = config.has_charge().then(|| Charge::new(charges));
        let rest = (config.has_decisions || charge.is_some()).then(|| {
            Box::new(Rest {
                decisions,
                shows_decisions: config.has_decisions,
                charge,
                settle: config.settle.clone(),
                headers: config.headers,
            })
        });
        (fields.is_some() || rest.is_some()).then(|| Box::new(Self { fields, rest }))
    }

    /// Returns what the configuration demands after the only rule's admission at once. It copies the
    /// plan and the decision only if a handler can read them.
    pub(crate) fn plain(
        config: &Config,
        rule: &Rule,
        plan: &Plan,
        decision: &Decision,
        cost: Cost,
        is_shadow: bool,
    ) -> Option<Box<Self>> {
        let disclosure = rule.disclosure;
        if config.has_decisions {
            let (plan, decision) = (plan.clone(), *decision);
            let decided =
                PolicyDecision { plan, cost, decision, is_shadow, waited: None, disclosure };
            return Self::new(config, decided.into(), Charges::default());
        }
        let is_public = disclosure == Disclosure::Full && !is_shadow;
        let reported = is_public.then_some(Reported { plan, decision, cost });
        let fields = config.headers.fields(reported.into_iter())?;
        Some(Box::new(Self { fields: Some(fields), rest: None }))
    }

    /// Adds to the request's extensions what the handler may read.
    pub(crate) fn enter(&mut self, extensions: &mut Extensions) {
        let Some(rest) = &mut self.rest else { return };
        if rest.shows_decisions {
            insert(rest.decisions.clone(), extensions);
        }
        if let Some(charge) = &mut rest.charge {
            charge.set_outer(extensions.get());
            extensions.insert(charge.clone());
        }
    }

    /// Settles the charge, and adds what clients and outer layers may read.
    fn leave<R>(mut self, response: &mut Response<R>) {
        if let Some(rest) = &mut self.rest
            && rest.settle(response)
        {
            self.fields = rest.headers.fields(rest.decisions.reported());
        }
        if let Some(fields) = self.fields {
            fields.append_to(response.headers_mut());
        }
        if let Some(rest) = self.rest
            && rest.shows_decisions
        {
            insert(rest.decisions, response.extensions_mut());
        }
    }
}

impl Rest {
    /// Settles the charge by the response. Returns whether it was settled, here or by a handler.
    fn settle<R>(&mut self, response: &Response<R>) -> bool {
        let Some(charge) = &self.charge else { return false };
        if let Some(settle) = &self.settle {
            charge.settle(settle(ResponseHead::from(response)));
        }
        let Some(kept) = charge.kept() else { return false };
        self.decisions.settle(kept);
        true
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    /// `service` was polled ready, unless the check waits for permits.
    pub(crate) fn deciding(check: RequestCheck, service: S, request: Request<B>) -> Self {
        let phase = if check.is_waiting() { Phase::Waiting } else { Phase::Checking };
        let deciding = Deciding { check, service, request, phase };
        Self { state: State::Deciding { deciding: Some(Box::new(deciding)) } }
    }

    pub(crate) const fn calling(inner: S::Future, after: Option<Box<After>>) -> Self {
        Self { state: State::Calling { inner, after } }
    }

    pub(crate) const fn refused(refused: Refused) -> Self {
        Self { state: State::Answered { refused: Some(refused) } }
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
                    state.set(match decided? {
                        Some(refused) => State::Answered { refused: Some(refused) },
                        None => admitted.call(),
                    });
                }
                StateProjection::Calling { inner, after } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some(after) = after.take() {
                        after.leave(&mut response);
                    }
                    return Poll::Ready(Ok(response.map(ResponseBody::inner)));
                }
                StateProjection::Answered { refused } => {
                    return match refused.take() {
                        Some(refused) => {
                            Poll::Ready(Ok(refused.into_response().map(ResponseBody::answer)))
                        }
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
            State::Deciding { deciding: Some(deciding) } => match deciding.phase {
                Phase::Checking => "Checking",
                Phase::Waiting => "Waiting",
                Phase::Readying => "Readying",
            },
            State::Deciding { deciding: None } => "Done",
            State::Calling { .. } => "Calling",
            State::Answered { refused: Some(_) } => "Answered",
            State::Answered { refused: None } => "Done",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
