//! The service of outgoing requests.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use limiter_core::{Entry, InFlight, InFlightPermit};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use crate::{
    advice::Advice,
    error::{NotSent, ThrottleError},
    event::EventKind,
    host::{Flight, Host, NoPermit},
    hosts::Hosts,
    name::other_host,
    permit::Permit,
    redact::text_of,
    settings::Settings,
};

/// A client whose requests wait for permits: see [`ThrottleLayer`](crate::ThrottleLayer).
///
/// It is always ready. The inner service is polled for readiness once a request has its permit, so
/// that a request that waits occupies no connection. If the future is dropped before the request is sent,
/// the permit is given back.
#[derive(Clone)]
pub struct Throttle<S> {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) inner: S,
}

impl<S, B, R> Service<Request<B>> for Throttle<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
    R: Send + 'static,
    S::Error: fmt::Display + Send,
{
    type Response = Response<R>;
    type Error = ThrottleError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (hosts, settings) = (Arc::clone(&self.hosts), Arc::clone(&self.settings));
        let inner = self.inner.clone();
        Box::pin(async move { Ok(send(hosts, settings, None, inner, request).await?.0) })
    }
}

/// The inner service may have credentials, so it is not printed.
impl<S> fmt::Debug for Throttle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Returns the response, and the permit of a request in flight.
pub(crate) async fn send<S, B, R>(
    hosts: Arc<Hosts>,
    settings: Arc<Settings>,
    in_flight: Option<&InFlight>,
    inner: S,
    request: Request<B>,
) -> Result<(Response<R>, Option<InFlightPermit>), ThrottleError<S::Error>>
where
    S: Service<Request<B>, Response = Response<R>, Error: fmt::Display> + Clone,
{
    let (head, body) = request.into_parts();
    let (name, uri) = (settings.name_of(&head), head.uri.clone());
    let request = Request::from_parts(head, body);
    let Some(name) = name else {
        let (mut service, _) = ready(inner).await.map_err(ThrottleError::Inner)?;
        let response = service.call(request).await.map_err(ThrottleError::Inner)?;
        return Ok((response, None));
    };
    let host = hosts.get(&name, || (settings.limiter)());
    let report = |kind: EventKind<'_>| settings.reporter.report(&name, kind);
    let failed = |error: &S::Error| {
        let text = text_of(error);
        report(EventKind::Failed { error: &text });
        text
    };
    let start = Instant::now();
    let deadline = start + settings.within;
    let waited = wait(&settings, &host, in_flight, inner, deadline).await;
    let (mut service, flight, permit) = match waited {
        Ok(ready) => ready,
        Err(error) => {
            let waited = start.elapsed();
            match &error {
                ThrottleError::NotSent(error) => report(EventKind::NotSent { waited, error }),
                ThrottleError::Inner(error) => drop(failed(error)),
            }
            return Err(error);
        }
    };
    report(EventKind::Sent { waited: start.elapsed() });

    let response = match service.call(request).await {
        Ok(response) => response,
        Err(error) => {
            flight.fail(failed(&error));
            return Err(ThrottleError::Inner(error));
        }
    };
    let (head, body) = response.into_parts();
    match (Advice::read(&head, &settings), other_host(&uri, &head.extensions)) {
        (None, _) => flight.ignore(),
        (Some(advice), None) => flight.learn(&advice, &settings),
        (Some(advice), Some(other)) => {
            // A closure can't be asked about a request that this layer has not seen.
            if settings.host.is_none() {
                let other = hosts.get(&other, || (settings.limiter)());
                other.learn(flight.sent_at, false, &advice, &settings);
            }
            flight.give_up(None);
        }
    }
    Ok((Response::from_parts(head, body), permit))
}

/// Waits for a place in flight, the front of the queue, a permit and the inner service. Returns the service, for a request
/// that has to be sent now: it was counted as sent.
async fn wait<'h, S, B>(
    settings: &Settings,
    host: &'h Host,
    in_flight: Option<&InFlight>,
    inner: S,
    deadline: Instant,
) -> Result<(S, Flight<'h>, Option<InFlightPermit>), ThrottleError<S::Error>>
where
    S: Service<Request<B>> + Clone,
{
    let _queued = host.enter(settings.queue).ok_or(NotSent::QueueFull)?;
    let too_long = |retry_after: Option<Duration>| NotSent::WaitTooLong {
        waited: settings.within.saturating_sub(deadline.saturating_duration_since(Instant::now())),
        retry_after,
        cause: host.failure().map(Into::into),
    };
    let late = || too_long(host.pause(settings));
    // Before it queues, because others in front of it may wait for longer than it can.
    if host.pause(settings) > Some(settings.within) {
        return Err(late().into());
    }
    let mut place = None;
    if let Some(in_flight) = in_flight {
        let entry = timeout_at(deadline, in_flight.acquire(&*host.name, None)).await;
        // A refusal before the deadline means that the table has no room for another host.
        let permit = entry.map_err(|_| late()).map(Entry::into_permit)?;
        place = Some(permit.ok_or(NotSent::QueueFull)?);
    }
    let _front = timeout_at(deadline, host.front()).await.map_err(|_| late())?;
    loop {
        let permit = timeout_at(deadline, host.permit(deadline, settings)).await;
        let permit = permit.map_err(|_| late())?.map_err(|error| match error {
            NoPermit::Store(error) => NotSent::Store(error),
            NoPermit::TooLate(retry_after) => too_long(retry_after),
        })?;
        let service = timeout_at(deadline, ready(inner.clone())).await.map_err(|_| late())?;
        let (service, has_waited) = service.map_err(ThrottleError::Inner)?;
        // A pause may have begun since. Nothing is awaited between this and the call.
        if let Some(flight) = host.try_send(permit.is_some(), has_waited, settings) {
            permit.into_iter().for_each(Permit::commit);
            return Ok((service, flight, place));
        }
    }
}

/// Returns `service` once it is ready, and whether it was not at first.
async fn ready<S, B>(mut service: S) -> Result<(S, bool), S::Error>
where
    S: Service<Request<B>>,
{
    let mut has_waited = false;
    poll_fn(|cx| {
        let poll = service.poll_ready(cx);
        has_waited |= poll.is_pending();
        poll
    })
    .await?;
    Ok((service, has_waited))
}
