//! The gate of a layer: permits before the inner service is called, and until its response has ended.

use std::{fmt, iter, sync::Arc, task::Context};

use bytes::Bytes;
use http::{
    Extensions, Method, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts,
};
use http_body::Body;

use super::{
    InFlightRule,
    ask::{Entered, enter},
    body::HeldBody,
    hold::RequestPermit,
    watch::Hold,
};
use crate::{
    answer::{Reason, Refused, ResponseFields, insert, is_watched, watch},
    decisions::{Decisions, InFlightDecision},
    key::Head,
    request::{
        common::Common,
        gate::{After, Deciding, Gate, Respond, Verdict},
    },
    rule::at_once,
};

type Config = Common<InFlightRule>;

/// How the services of an [`InFlightLayer`](crate::InFlightLayer) decide.
#[derive(Clone)]
pub struct InFlightGate {
    config: Arc<Config>,
    /// Whether all limiters answer at the first poll.
    is_immediate: bool,
}

/// A request that the limits have admitted, or do not count.
///
/// The permits are given back when this is dropped: when the response's future is dropped, panics or fails. Otherwise the
/// response's body takes them over.
#[expect(missing_debug_implementations, reason = "users can't name it")]
pub struct Holding {
    /// `None` if no permit is held.
    hold: Option<Hold>,
    fields: Option<ResponseFields>,
    /// For handlers and outer layers, if they see them.
    decisions: Option<Vec<InFlightDecision>>,
    is_head: bool,
    is_connect: bool,
    /// What a strict rule answers with. `None` if none can lose its permit.
    answers: Option<Box<Answerer>>,
}

/// Answers in place of the inner service.
struct Answerer {
    config: Arc<Config>,
    /// The request's method, target and content type, and whether an outer layer watches: the inner service has the rest.
    request: Request<()>,
}

impl InFlightGate {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let is_immediate = config.rules.iter().all(|rule| rule.limiter().store() == "memory");
        Self { config, is_immediate }
    }
}

impl fmt::Debug for InFlightGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt_as("InFlightGate", f)
    }
}

impl Gate for InFlightGate {
    type After = Holding;

    fn decide_now(&self, head: Head<'_>) -> Option<Verdict<Holding>> {
        if self.is_immediate { at_once(decide(&self.config, head)) } else { None }
    }

    fn decide(&self, parts: Parts) -> Deciding<Holding> {
        let config = Arc::clone(&self.config);
        Box::pin(async move {
            let verdict = decide(&config, Head::from(&parts)).await;
            (parts, verdict)
        })
    }
}

impl<R: Body> Respond<R> for InFlightGate {
    type Body = HeldBody<R>;

    fn leave(after: &mut Holding, response: Response<R>) -> Response<HeldBody<R>> {
        after.leave(response)
    }

    fn answer(response: Response<Bytes>) -> Response<HeldBody<R>> {
        response.map(HeldBody::refusal)
    }
}

async fn decide(config: &Arc<Config>, head: Head<'_>) -> Verdict<Holding> {
    if config.passes(head) {
        return Verdict::Forward(Holding::new(config, Entered::default(), head));
    }
    match enter(&config.rules, head).await {
        Ok(entered) => Verdict::Forward(Holding::new(config, entered, head)),
        Err(refused) => Verdict::Answer(config.refuse(&refused, head)),
    }
}

impl Holding {
    fn new(config: &Arc<Config>, entered: Entered, head: Head<'_>) -> Self {
        let Entered { permits, decisions } = entered;
        let mut hold = permits.map(Hold::new);
        let is_strict = hold.as_mut().is_some_and(Hold::is_strict);
        let answers = is_strict.then(|| {
            let mut request = Request::new(());
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = head.uri().clone();
            if let Some(content_type) = head.headers.get(CONTENT_TYPE) {
                request.headers_mut().insert(CONTENT_TYPE, content_type.clone());
            }
            if is_watched(head.extensions) {
                watch(request.extensions_mut());
            }
            Box::new(Answerer { config: Arc::clone(config), request })
        });
        Self {
            hold,
            fields: config.answers.headers.fields(iter::empty(), decisions.iter()),
            decisions: config.has_decisions.then_some(decisions),
            is_head: head.method == Method::HEAD,
            is_connect: head.method == Method::CONNECT,
            answers,
        }
    }

    fn leave<R: Body>(&mut self, mut response: Response<R>) -> Response<HeldBody<R>> {
        let hold = self.after_head(&response);
        if let Some(decisions) = self.decisions.take() {
            insert(Decisions::of_in_flight(decisions), response.extensions_mut());
        }
        if let Some(fields) = self.fields.take() {
            fields.append_to(response.headers_mut(), false);
        }
        response.map(|body| HeldBody::new(body, hold))
    }

    /// Returns the permits for the response's body, or gives them back if the response has ended with its head.
    fn after_head<R: Body>(&mut self, response: &Response<R>) -> Option<Hold> {
        let hold = self.hold.take()?;
        if !self.ends_with_head(response) {
            return Some(hold);
        }
        // What a handler holds is another reference.
        if self.switches_protocols(response) && Arc::strong_count(&hold.permits) == 1 {
            hold.permits.report_upgrade();
        }
        None
    }

    /// Returns whether no body is sent, whatever the response has.
    fn ends_with_head<R: Body>(&self, response: &Response<R>) -> bool {
        const WITHOUT_BODY: [StatusCode; 3] =
            [StatusCode::SWITCHING_PROTOCOLS, StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
        self.is_head || WITHOUT_BODY.contains(&response.status()) || response.body().is_end_stream()
    }

    /// Returns whether the connection goes on after the response in another protocol, or as a tunnel.
    fn switches_protocols<R>(&self, response: &Response<R>) -> bool {
        response.status() == StatusCode::SWITCHING_PROTOCOLS
            || self.is_connect && response.status().is_success()
    }
}

impl After for Holding {
    fn enter(&mut self, extensions: &mut Extensions) {
        let permits = self.hold.as_ref().map(|hold| &hold.permits);
        let permit = RequestPermit::new(permits, extensions.get());
        extensions.insert(permit);
        if let Some(decisions) = &self.decisions {
            insert(Decisions::of_in_flight(decisions.clone()), extensions);
        }
    }

    fn ended(&mut self, cx: &mut Context<'_>) -> Option<Response<Bytes>> {
        let must_end = self.hold.as_mut()?.must_end(cx);
        let Answerer { config, request } = &**self.answers.as_ref().filter(|_| must_end)?;
        let refused = Refused::new(None, Reason::PermitLost);
        Some(config.answers.respond(request, &refused))
    }
}
