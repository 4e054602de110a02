//! The service of outgoing requests.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use tokio::{
    sync::MutexGuard as Front,
    time::{Instant, timeout, timeout_at},
};
use tower_service::Service;

use crate::{
    advice::Advice,
    error::{BoxError, ThrottleError},
    event::EventKind,
    host::{Flight, Host, NoPermit},
    layer::ThrottleLayer,
    name::other_host,
    permit::Permit,
    redact::text_of,
    window::PROBE_TIMEOUT,
};

/// A client whose requests wait for permits: see [`ThrottleLayer`].
///
/// It is always ready. The inner service is asked whether it is ready once a request has its permit, so
/// that a request that waits occupies no connection. If the future is dropped before the request is sent,
/// the permit is given back.
#[derive(Clone)]
pub struct Throttle<S> {
    pub(crate) layer: ThrottleLayer,
    pub(crate) inner: S,
}

impl<S, B, R> Service<Request<B>> for Throttle<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
    R: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<R>;
    type Error = ThrottleError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, ThrottleError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { layer, inner } = self.clone();
        Box::pin(send(layer, inner, request))
    }
}

/// The inner service may have credentials, so it is not printed.
impl<S> fmt::Debug for Throttle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("layer", &self.layer).finish_non_exhaustive()
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
    let (name, uri) = (layer.name_of(&head), head.uri.clone());
    let request = Request::from_parts(head, body);
    let Some(name) = name else {
        let mut service = ready(inner.clone()).await?;
        return service.call(request).await.map_err(inner_error);
    };
    let host = layer.host_named(&name);
    let (start, report) =
        (Instant::now(), |kind: EventKind<'_>| layer.reporter.report(&name, kind));
    let ready = wait(&layer, &host, inner, start + layer.within).await;
    let waited = start.elapsed();
    let Ready { mut service, flight, mut front } =
        ready.inspect_err(|error| report(EventKind::NotSent { waited, error }))?;
    report(EventKind::Sent { waited });

    let mut call = pin!(async { service.call(request).await.map_err(inner_error) });
    let early = match front {
        Some(_) => timeout(PROBE_TIMEOUT, &mut call).await.ok(),
        None => None,
    };
    let result = match early {
        Some(result) => result,
        None => {
            if front.take().is_some() {
                host.set_probed();
            }
            call.await
        }
    };
    let response = match result {
        Ok(response) => response,
        Err(error) => {
            flight.fail(text_of(&error));
            report(EventKind::Failed { error: &error });
            return Err(error);
        }
    };

    let Some(advice) = Advice::read(response.status(), response.headers(), layer.spend) else {
        flight.ignore();
        return Ok(response);
    };
    if let Some(other) = other_host(&uri, response.extensions()) {
        host.set_probed();
        // A closure can't be asked about a request that this layer has not seen.
        if layer.counts_by_uri() {
            layer.host_named(&other).learn(flight.sent_at, &advice, &layer);
        }
    } else if flight.learn(&advice, &layer) && front.is_some() {
        host.charge_first().await;
    }
    drop(front);
    Ok(response)
}

/// A request that has to be sent now. It was counted as sent.
struct Ready<'h, S> {
    service: S,
    flight: Flight<'h>,
    /// The front of the queue, which the first request to a host keeps until it is over.
    front: Option<Front<'h, ()>>,
}

/// Waits for the front of the queue, a permit and the inner service.
async fn wait<'h, S, B>(
    layer: &ThrottleLayer,
    host: &'h Host,
    inner: S,
    deadline: Instant,
) -> Result<Ready<'h, S>, ThrottleError>
where
    S: Service<Request<B>, Error: Into<BoxError>> + Clone,
{
    let _place = host.enter(layer.queue).ok_or(ThrottleError::QueueFull)?;
    // Before it queues, because others in front of it may wait for longer than it can.
    if host.pause() > Some(layer.within) {
        return Err(too_long(layer, host, deadline, host.pause()));
    }
    let late = || too_long(layer, host, deadline, host.pause());
    let front = timeout_at(deadline, host.front()).await.map_err(|_| late())?;
    loop {
        let permit = permit(layer, host, deadline).await?;
        let service = timeout_at(deadline, ready(inner.clone())).await.map_err(|_| late())??;
        // A pause may have begun since. Nothing is awaited between this and the call.
        if let Some(flight) = host.try_send(permit.is_some()) {
            permit.into_iter().for_each(Permit::commit);
            return Ok(Ready { service, flight, front: (!host.is_probed()).then_some(front) });
        }
    }
}

/// Returns a permit, or none if this process keeps the pace.
async fn permit(
    layer: &ThrottleLayer,
    host: &Host,
    deadline: Instant,
) -> Result<Option<Permit>, ThrottleError> {
    match timeout_at(deadline, host.permit(deadline, layer)).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(NoPermit::Store(error))) => Err(ThrottleError::Store(error)),
        Ok(Err(NoPermit::TooLate(retry_after))) => {
            Err(too_long(layer, host, deadline, retry_after))
        }
        Err(_) => Err(too_long(layer, host, deadline, host.pause())),
    }
}

/// Returns the error of a request whose time to wait is over.
fn too_long(
    layer: &ThrottleLayer,
    host: &Host,
    deadline: Instant,
    retry_after: Option<Duration>,
) -> ThrottleError {
    let waited = layer.within.saturating_sub(deadline.saturating_duration_since(Instant::now()));
    ThrottleError::WaitTooLong { waited, retry_after, cause: host.failure().map(Into::into) }
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
