//! The service of outgoing requests.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use crate::{
    error::{BoxError, OnStoreFailure, ThrottleError},
    host::{Host, NoPermit},
    layer::ThrottleLayer,
    permit::Permit,
};

/// A client whose requests wait for permits: see [`ThrottleLayer`].
///
/// It is always ready. The inner service is asked whether it is ready once a request has its permit, so
/// that a request that waits occupies no connection.
#[derive(Clone)]
pub struct Throttle<S> {
    pub(crate) layer: ThrottleLayer,
    pub(crate) inner: S,
}

/// The future of [`Throttle`]. If it is dropped before the request is sent, the permit is given back.
#[must_use = "futures do nothing unless polled"]
pub struct ThrottleFuture<R>(Pin<Box<dyn Future<Output = Result<R, ThrottleError>> + Send>>);

impl<S, B, R> Service<Request<B>> for Throttle<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
    R: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<R>;
    type Error = ThrottleError;
    type Future = ThrottleFuture<Response<R>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { layer, inner } = self.clone();
        ThrottleFuture(Box::pin(send(layer, inner, request)))
    }
}

async fn send<S, B, R>(
    layer: ThrottleLayer,
    inner: S,
    request: Request<B>,
) -> Result<Response<R>, ThrottleError>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone,
{
    let (head, body) = request.into_parts();
    let name = (layer.host)(&head);
    let request = Request::from_parts(head, body);
    let Some(name) = name else {
        let mut service = ready(inner.clone()).await?;
        return service.call(request).await.map_err(inner_error);
    };
    let host = layer.hosts.get(&name, || Host::new(&name, Arc::clone(&layer.limiter)));
    let place = host.enter(layer.queue).ok_or(ThrottleError::QueueFull)?;
    // Before it queues, because others in front of it may wait for longer than it can.
    if host.pause() > Some(layer.within) {
        return Err(too_long(&host));
    }
    let deadline = Instant::now() + layer.within;
    let turn = timeout_at(deadline, host.turn()).await.map_err(|_| too_long(&host))?;
    let (permit, mut service) = loop {
        let permit = permit(&layer, &host, deadline).await?;
        let service = timeout_at(deadline, ready(inner.clone())).await;
        let service = service.map_err(|_| too_long(&host))??;
        // A pause may have begun since. Nothing is awaited between this and the call.
        if host.pause().is_none() {
            break (permit, service);
        }
    };
    let sent_at = host.sent(permit);
    let turn_of_first = (!host.has_answered()).then_some(turn);
    drop(place);
    let response = service.call(request).await.map_err(inner_error)?;
    let (status, headers) = (response.status(), response.headers());
    if host.learn(sent_at, status, headers, layer.longest_pause) && turn_of_first.is_some() {
        host.charge_first().await;
    }
    drop(turn_of_first);
    Ok(response)
}

/// Returns a permit, or none if the limiter's store failed and the request is sent nevertheless.
async fn permit(
    layer: &ThrottleLayer,
    host: &Host,
    deadline: Instant,
) -> Result<Option<Permit>, ThrottleError> {
    match timeout_at(deadline, host.permit(deadline)).await {
        Ok(Ok(permit)) => Ok(Some(permit)),
        Ok(Err(NoPermit::Store(error))) => match layer.on_store_failure {
            OnStoreFailure::Allow => Ok(None),
            OnStoreFailure::Deny => Err(ThrottleError::Store(error)),
        },
        Ok(Err(NoPermit::TooLate(retry_after))) => Err(ThrottleError::WaitTooLong { retry_after }),
        Err(_) => Err(too_long(host)),
    }
}

/// Returns the error of a request whose time to wait is over.
fn too_long(host: &Host) -> ThrottleError {
    ThrottleError::WaitTooLong { retry_after: host.pause() }
}

/// Returns `service` once it is ready.
async fn ready<S, B>(mut service: S) -> Result<S, ThrottleError>
where
    S: Service<Request<B>, Error: Into<BoxError>>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(inner_error)?;
    Ok(service)
}

fn inner_error(error: impl Into<BoxError>) -> ThrottleError {
    ThrottleError::Inner(error.into())
}

impl<R> Future for ThrottleFuture<R> {
    type Output = Result<R, ThrottleError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<R> fmt::Debug for ThrottleFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleFuture").finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Throttle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("layer", &self.layer).field("inner", &self.inner).finish()
    }
}
