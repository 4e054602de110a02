//! What a service would write by hand over a limiter in memory: the least that a layer can cost.

use std::{
    convert::Infallible,
    future::Future,
    io::Write,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::ConnectInfo};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use limiter_core::MemoryLimiter;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Reads the connect info, checks once, and writes two header fields.
#[derive(Clone)]
pub(crate) struct ByHand<S = ()> {
    limiter: MemoryLimiter,
    /// `None` without header fields.
    policy: Option<HeaderValue>,
    inner: S,
}

/// Returns the layer.
pub(crate) fn layer(limiter: MemoryLimiter, headers: bool) -> ByHand {
    let policy = headers.then(|| HeaderValue::from_static(r#""default";q=10000;w=1"#));
    ByHand { limiter, policy, inner: () }
}

impl<S> Layer<S> for ByHand {
    type Service = ByHand<S>;

    fn layer(&self, inner: S) -> ByHand<S> {
        ByHand { limiter: self.limiter.clone(), policy: self.policy.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for ByHand<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ByHandFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let decision = match peer.map(|ConnectInfo(peer)| peer.ip()) {
            Some(IpAddr::V4(address)) => self.limiter.check(address),
            Some(IpAddr::V6(address)) => self.limiter.check(address),
            None => self.limiter.check("unknown"),
        };
        let fields = self.policy.as_ref().and_then(|policy| {
            let mut text = [0_u8; 64];
            let mut rest = text.as_mut_slice();
            let (remaining, wait) = (decision.remaining(), decision.retry_after());
            let seconds = wait.unwrap_or(decision.reset_after()).as_secs().max(1);
            write!(rest, "\"default\";r={remaining};t={seconds}").ok()?;
            let length = 64 - rest.len();
            Some((policy.clone(), HeaderValue::from_bytes(text.get(..length)?).ok()?))
        });
        let inner = decision.is_admitted().then(|| self.inner.call(request));
        ByHandFuture { inner, fields }
    }
}

pin_project! {
    /// The future of [`ByHand`].
    pub(crate) struct ByHandFuture<F> {
        // `None` if the request is refused.
        #[pin]
        inner: Option<F>,
        fields: Option<(HeaderValue, HeaderValue)>,
    }
}

impl<F: Future<Output = Result<Response<Body>, Infallible>>> Future for ByHandFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let mut response = match this.inner.as_pin_mut() {
            Some(inner) => match ready!(inner.poll(cx)) {
                Ok(response) => response,
                Err(never) => match never {},
            },
            None => {
                let mut refusal = Response::new(Body::from("rate limit exceeded\n"));
                *refusal.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                refusal
            }
        };
        if let Some((policy, members)) = this.fields.take() {
            response.headers_mut().append(RATELIMIT_POLICY, policy);
            response.headers_mut().append(RATELIMIT, members);
        }
        Poll::Ready(Ok(response))
    }
}
