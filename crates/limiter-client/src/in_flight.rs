//! At most so many requests to a host at once, each until the body of its response has ended.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use limiter_core::{Error, InFlight, InFlightPermit};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    error::ThrottleError, hosts::Hosts, layer::ThrottleLayer, service::send, settings::Settings,
};

/// A [`ThrottleLayer`] that also limits the requests in flight to each host: see [`ThrottleLayer::in_flight`].
#[derive(Clone, Debug)]
pub struct InFlightThrottleLayer {
    throttle: ThrottleLayer,
    in_flight: InFlight,
}

/// The service of an [`InFlightThrottleLayer`].
#[derive(Clone)]
pub struct InFlightThrottle<S> {
    hosts: Arc<Hosts>,
    settings: Arc<Settings>,
    in_flight: InFlight,
    inner: S,
}

impl ThrottleLayer {
    /// Returns a layer that sends at most `limit` requests to a host at once, each until the body of its response has ended or
    /// was dropped, and no faster than this layer. A request waits for its place first, and then for its permit, both in
    /// the [`queue`](Self::queue) of its host.
    ///
    /// ```
    /// use limiter_client::{Policy, Quota, ThrottleLayer};
    ///
    /// // At most five at once and ten a second to each host.
    /// let layer = ThrottleLayer::new(Policy::gcra("outgoing", Quota::per_second(10)))?.in_flight(5)?;
    /// # Ok::<(), limiter_client::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if the limit is zero.
    pub fn in_flight(self, limit: u32) -> Result<InFlightThrottleLayer, Error> {
        // The queue of each host is the bound of its waiters.
        let in_flight = InFlight::builder(&self.settings.reporter.policy, limit);
        let in_flight = in_flight.max_waiting(usize::MAX).build()?;
        Ok(InFlightThrottleLayer { throttle: self, in_flight })
    }
}

impl<S> Layer<S> for InFlightThrottleLayer {
    type Service = InFlightThrottle<S>;

    fn layer(&self, inner: S) -> InFlightThrottle<S> {
        let ThrottleLayer { hosts, settings } = self.throttle.clone();
        InFlightThrottle { hosts, settings, in_flight: self.in_flight.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for InFlightThrottle<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
    R: Body + Send + 'static,
    S::Error: fmt::Display + Send,
{
    type Response = Response<HeldBody<R>>;
    type Error = ThrottleError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { hosts, settings, in_flight, inner } = self.clone();
        Box::pin(async move {
            let (response, permit) =
                send(hosts, settings, Some(&in_flight), inner, request).await?;
            Ok(response.map(|inner| {
                let permit = permit.filter(|_| !inner.is_end_stream());
                HeldBody { inner, permit }
            }))
        })
    }
}

/// The inner service may have credentials, so it is not printed.
impl<S> fmt::Debug for InFlightThrottle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("InFlightThrottle");
        debug.field("settings", &self.settings).field("in_flight", &self.in_flight);
        debug.finish_non_exhaustive()
    }
}

pin_project! {
    /// The body of a response, which holds a permit until it has ended or is dropped.
    #[derive(Debug)]
    pub struct HeldBody<B> {
        #[pin]
        inner: B,
        permit: Option<InFlightPermit>,
    }
}

impl<B: Body> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut body = self.project();
        let frame = body.inner.as_mut().poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || body.inner.is_end_stream() {
            *body.permit = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
