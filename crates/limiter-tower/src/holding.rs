//! The permits that a request in flight holds.

use std::{fmt, sync::Arc, task::Context};

use bytes::Bytes;
use http::{Extensions, Method, Request, Response, StatusCode};
use http_body::Body;

use crate::{
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
    pub(crate) fn new(config: &Arc<Config>, head: Head<'_>, permits: Option<Arc<Permits>>) -> Self {
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
        Self { hold, is_head, is_connect, answers }
    }

    /// Adds to the request's extensions what the handler may hold.
    pub(crate) fn enter(&self, extensions: &mut Extensions) {
        let permits = self.hold.as_ref().map(|hold| &hold.permits);
        let permit = RequestPermit::new(permits, extensions.get());
        extensions.insert(permit);
    }

    /// Returns the answer in place of the inner service's, if a strict rule has lost its permit.
    pub(crate) fn ended(&mut self, cx: &mut Context<'_>) -> Option<Response<Bytes>> {
        let must_end = self.hold.as_mut()?.must_end(cx);
        let Answerer { config, request } = &**self.answers.as_ref().filter(|_| must_end)?;
        let refused = Refused::new(None, Reason::PermitLost);
        Some(config.answers.refuse(Head::from(request), &refused))
    }

    /// Returns the permits for the response's body, or gives them back if the response has ended with its head.
    pub(crate) fn after_head<R: Body>(mut self, response: &Response<R>) -> Option<Hold> {
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

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("hold", &self.hold).finish_non_exhaustive()
    }
}
