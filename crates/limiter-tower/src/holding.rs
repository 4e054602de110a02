//! What is done around the inner service while a request holds permits.

use std::{fmt, sync::Arc, task::Context};

use bytes::Bytes;
use http::{Extensions, Method, Request, Response, StatusCode};
use http_body::Body;

use crate::{
    after::After,
    body::ResponseBody,
    config::Config,
    in_flight::{Hold, Permits, RequestPermit},
    key::Head,
    respond::{Reason, Refused},
};

/// A request that limits on requests in flight have admitted, or do not count.
///
/// The permits are given back when this is dropped: when the response's future is dropped, panics or fails. Otherwise the
/// response's body takes them over.
pub(crate) struct Holding {
    after: Option<Box<After>>,
    /// `None` if no permit is held.
    hold: Option<Hold>,
    is_head: bool,
    is_connect: bool,
    /// What a strict rule answers with. `None` if none can lose its permit.
    answers: Option<Box<Answerer>>,
}

/// Answers in place of the inner service.
struct Answerer {
    config: Arc<Config>,
    /// The request's head, without extensions: the inner service has the request.
    request: Request<()>,
}

impl Holding {
    pub(crate) fn new(
        config: &Arc<Config>,
        head: Head<'_>,
        after: Option<Box<After>>,
        permits: Option<Arc<Permits>>,
    ) -> Self {
        let mut hold = permits.map(Hold::new);
        let is_strict = hold.as_mut().is_some_and(Hold::is_strict);
        let answers = is_strict.then(|| {
            let mut request = Request::new(());
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = head.uri().clone();
            *request.headers_mut() = head.headers.clone();
            Box::new(Answerer { config: Arc::clone(config), request })
        });
        let (is_head, is_connect) = (head.method == Method::HEAD, head.method == Method::CONNECT);
        Self { after, hold, is_head, is_connect, answers }
    }

    /// Adds to the request's extensions what the handler may read.
    pub(crate) fn enter(&mut self, extensions: &mut Extensions) {
        if let Some(after) = &mut self.after {
            after.enter(extensions);
        }
        let permits = self.hold.as_ref().map(|hold| &hold.permits);
        let permit = RequestPermit::new(permits, extensions.get());
        extensions.insert(permit);
    }

    /// Refunds what was charged, because the inner service has failed to become ready.
    pub(crate) fn refund(&self) {
        if let Some(after) = &self.after {
            after.refund();
        }
    }

    /// Returns the answer in place of the inner service's, if a strict rule has lost its permit.
    pub(crate) fn ended(&mut self, cx: &mut Context<'_>) -> Option<Response<Bytes>> {
        let must_end = self.hold.as_mut()?.must_end(cx);
        let Answerer { config, request } = &**self.answers.as_ref().filter(|_| must_end)?;
        let refused = Refused::new(None, Reason::PermitLost);
        Some(config.answers.refuse(Head::from(request), &refused))
    }

    /// Gives the permits back if the response has ended with its head, or else leaves them to its body. Then settles the
    /// charge, and adds what clients and outer layers may read.
    pub(crate) fn leave<R: Body>(mut self, mut response: Response<R>) -> Response<ResponseBody<R>> {
        let hold = self.hold.take();
        let ends = self.ends_with_head(&response);
        if let Some(hold) = hold.as_ref().filter(|_| ends && self.switches_protocols(&response))
            // What a handler holds is another reference.
            && Arc::strong_count(&hold.permits) == 1
        {
            hold.permits.report_upgrade();
        }
        let hold = hold.filter(|_| !ends);
        if let Some(after) = self.after {
            after.leave(&mut response);
        }
        match hold {
            Some(hold) => response.map(|body| ResponseBody::held(body, hold)),
            None => response.map(ResponseBody::inner),
        }
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

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("hold", &self.hold).finish_non_exhaustive()
    }
}
