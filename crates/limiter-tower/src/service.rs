//! The service that the layer makes.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, request::Parts};
use limiter_core::{Answer, Decision, Key, Limiter};
use tower_service::Service;

use crate::{
    body::ResponseBody,
    future::{ResponseFuture, with_decision},
    key::KeyExtractor,
    layer::Shared,
    responder::Judgement,
};

/// Asks a limiter about each request before the inner service gets it.
///
/// Errors are the inner service's: a refusal is a response.
pub struct RateLimit<S, L, K> {
    inner: S,
    shared: Arc<Shared<L, K>>,
}

impl<S, L, K> RateLimit<S, L, K> {
    pub(crate) const fn new(inner: S, shared: Arc<Shared<L, K>>) -> Self {
        Self { inner, shared }
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

impl<S, L, K, B, R> Service<Request<B>> for RateLimit<S, L, K>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    L: Limiter,
    K: KeyExtractor,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, Request<B>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let asked = self.shared.ask(&parts);
        let request = Request::from_parts(parts, body);
        let responder = Arc::clone(&self.shared.responder);
        let judgement = match asked {
            Asked::Judged(judgement) => judgement,
            Asked::Checking(mut check) => match check.take_ready() {
                Some(result) => responder.judge(result),
                None => {
                    // Only the service that was polled ready may be called, so it goes with the
                    // request, and a clone, which is yet to be polled, stays.
                    let clone = self.inner.clone();
                    let ready = mem::replace(&mut self.inner, clone);
                    return ResponseFuture::deciding(check, ready, request, responder);
                }
            },
        };
        match judgement {
            Judgement::Forward(decision) => {
                let inner = self.inner.call(with_decision(request, decision));
                ResponseFuture::calling(inner, decision, responder)
            }
            Judgement::Answer(answer) => ResponseFuture::answered(answer),
        }
    }
}

/// What came of looking for a key and asking about it.
enum Asked {
    Checking(Answer<Decision>),
    /// Without the limiter.
    Judged(Judgement),
}

impl<L: Limiter, K: KeyExtractor> Shared<L, K> {
    fn ask(&self, request: &Parts) -> Asked {
        let key = match self.key.extract(request) {
            Ok(key) => key,
            Err(missing) => match self.responder.judge_missing(&missing) {
                Some(judgement) => return Asked::Judged(judgement),
                // The key of no parts: an extractor would have nothing to tell apart by it.
                None => Key::tuple([]),
            },
        };
        Asked::Checking(self.limiter.check(&key))
    }
}

impl<S: Clone, L, K> Clone for RateLimit<S, L, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, L, K> fmt::Debug for RateLimit<S, L, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
