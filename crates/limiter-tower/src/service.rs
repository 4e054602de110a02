//! The service that the layer makes, its future and its body.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

pub use crate::{body::ResponseBody, future::ResponseFuture};
use crate::{config::Config, key::Head, verdict::Verdict};

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
    R: Body,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.config.decide(Head::from(&request)) {
            Ok(Verdict::Forward(mut after)) => {
                if let Some(after) = &mut after {
                    after.enter(request.extensions_mut());
                }
                ResponseFuture::calling(self.inner.call(request), after)
            }
            Ok(Verdict::Answer(response)) => ResponseFuture::answered(response),
            Err(pending) => {
                // The service that was polled ready goes with the request, because only it may be
                // called. A clone, which is yet to be polled, stays.
                let clone = self.inner.clone();
                let service = mem::replace(&mut self.inner, clone);
                let config = Arc::clone(&self.config);
                ResponseFuture::deciding(config, pending, service, request)
            }
        }
    }
}
