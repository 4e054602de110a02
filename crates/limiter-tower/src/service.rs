//! The service that the layer makes.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use tower_service::Service;

use crate::{
    Head,
    charge::Charges,
    config::Config,
    future::{Calling, ResponseFuture},
    request_check::{FastPath, Verdict},
    respond::body::ResponseBody,
};

/// A service whose requests are limited.
///
/// A refusal is a response, so errors are the inner service's. A request that can't be decided at once
/// needs a clone of the inner service; put a service that can't be cloned behind a
/// `tower::buffer::Buffer`.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
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

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let head = Head::from(&request);
        let (config, inner) = (&self.config, &mut self.inner);
        if config.passes(head) {
            return ResponseFuture::calling(Calling::plain(inner.call(request)));
        }
        let path = match config.only_rule() {
            Some(rule) => FastPath::ask(config, rule, head),
            None => FastPath::check_all(config, head),
        };
        let (check, verdict) = match path {
            FastPath::Other(check, verdict) => (check, verdict),
            FastPath::Admitted(decisions) => {
                let charges = Charges::default();
                let calling = Calling::new(config, inner, request, decisions, charges);
                return ResponseFuture::calling(calling);
            }
        };
        match verdict {
            Poll::Ready(Verdict::Forward) => {
                let (decisions, charges) = check.admit();
                ResponseFuture::calling(Calling::new(config, inner, request, decisions, charges))
            }
            Poll::Ready(Verdict::Answer(response)) => ResponseFuture::answered(response),
            Poll::Pending => {
                // The service that was polled ready goes with the request, because only it may be
                // called. A clone, which is yet to be polled, stays.
                let clone = self.inner.clone();
                let mut service = mem::replace(&mut self.inner, clone);
                if check.is_waiting() {
                    service = service.clone();
                }
                ResponseFuture::deciding(check, service, request)
            }
        }
    }
}
