//! What is known of one host, and the queue of the requests to it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use limiter_core::{Cost, Error, Key, Limiter as _, OnStoreFailure, WaitingLimiter};
use tokio::{
    sync::{Mutex as Queue, MutexGuard as Front, Notify},
    time::{Instant, sleep, timeout},
};

use crate::{
    advice::Advice,
    event::{EventKind, Reporter},
    layer::ThrottleLayer,
    permit::Permit,
    state::{Changes, State},
    window::{Hold, PROBE_TIMEOUT},
};

/// One host.
///
/// Requests form a queue, and only the one at its front asks the limiter, until it is sent. So when
/// the pace changes, one permit is given back and asked for anew, and not one for each request that
/// waits; and while the inner service is not ready, no permits pile up. The first request to a host
/// stays at the front until it is over, or for [`PROBE_TIMEOUT`](crate::window::PROBE_TIMEOUT).
pub(crate) struct Host {
    name: Arc<str>,
    queue: Queue<()>,
    waiting: AtomicUsize,
    state: Mutex<State>,
    /// Notified when the pace changes or a pause begins.
    changed: Notify,
    /// Notified when a response has arrived, or a request has failed or was dropped.
    returned: Notify,
}

/// Why a request received no permit.
pub(crate) enum NoPermit {
    /// There will be one after this time, which is too late.
    TooLate(Option<Duration>),
    Store(Error),
}

/// A place among the requests that wait for a host.
pub(crate) struct Place<'h>(&'h AtomicUsize);

/// A request that is in flight until this is dropped.
pub(crate) struct Flight<'h> {
    host: &'h Host,
    pub(crate) sent_at: Instant,
    /// Whether its return was counted.
    has_returned: bool,
}

impl Host {
    /// `limiter` has the fastest pace that the host may be sent requests at.
    pub(crate) fn new(name: Arc<str>, limiter: Arc<dyn WaitingLimiter>) -> Self {
        Self {
            name,
            queue: Queue::default(),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State::new(limiter)),
            changed: Notify::new(),
            returned: Notify::new(),
        }
    }

    /// Returns a place in the queue, or `None` if it has `most` requests.
    pub(crate) fn enter(&self, most: usize) -> Option<Place<'_>> {
        let place = Place(&self.waiting);
        (self.waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    /// Returns for how long no request may be sent, as far as that is known.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self.state().hold(Instant::now(), true)? {
            Hold::For(pause) => Some(pause),
            Hold::UntilResponse(_) => None,
        }
    }

    /// Returns the text of the last request's error, if no response has arrived since.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failure().map(str::to_owned)
    }

    /// Returns the front of the queue once all requests before this one were sent, in the order of the calls.
    pub(crate) async fn front(&self) -> Front<'_, ()> {
        self.queue.lock().await
    }

    /// Returns whether the first request is over.
    pub(crate) fn is_probed(&self) -> bool {
        self.state().is_probed()
    }

    /// Ends the wait for the first response.
    pub(crate) fn set_probed(&self) {
        self.state().set_probed(None);
    }

    /// Returns a permit to send one request, once nothing holds it and the limiter admits it. It is given
    /// back if it is dropped before the request is sent.
    ///
    /// Returns `None` if the limiter's store has failed, or the limiter does not count what it admits, and the
    /// request may be sent at the pace that this process keeps.
    pub(crate) async fn permit(
        &self,
        deadline: Instant,
        layer: &ThrottleLayer,
    ) -> Result<Option<Permit>, NoPermit> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut is_counted = true;
        loop {
            // From before the state is read, so that no change after that is missed.
            let (changed, returned) = (self.changed.notified(), self.returned.notified());
            let (limiter, hold) = {
                let mut state = self.state();
                (state.limiter(), state.hold(Instant::now(), is_counted))
            };
            match hold {
                Some(Hold::For(pause)) if pause > left() => {
                    return Err(NoPermit::TooLate(Some(pause)));
                }
                Some(Hold::For(pause)) => {
                    // Another response may change it.
                    let _ = timeout(pause, changed).await;
                    continue;
                }
                Some(Hold::UntilResponse(longest)) => {
                    let _ = timeout(longest, returned).await;
                    continue;
                }
                None if !is_counted => return Ok(None),
                None => {}
            }
            let asked = limiter.acquire(&Key::from(&*self.name), Cost::ONE, Some(left()));
            let Some(reserved) = unless(changed, asked).await else {
                continue;
            };
            let reserved = match reserved {
                Ok(reserved) => reserved,
                Err(error) => {
                    layer.reporter.report(&self.name, EventKind::StoreFailed { error: &error });
                    match layer.on_store_failure {
                        OnStoreFailure::Allow => is_counted = false,
                        OnStoreFailure::Deny => return Err(NoPermit::Store(error)),
                    }
                    continue;
                }
            };
            let (is_admitted, wait) = (reserved.is_admitted(), reserved.decision().retry_after());
            if let Some(receipt) = reserved.into_receipt() {
                let (host, reporter) = (Arc::clone(&self.name), layer.reporter.clone());
                return Ok(Some(Permit { limiter, receipt: Some(receipt), host, reporter }));
            }
            if is_admitted {
                is_counted = false;
                continue;
            }
            match wait.filter(|wait| *wait <= left()) {
                // Behind a debt of another pace, which another process may have, nothing is promised.
                Some(wait) => sleep(wait).await,
                None => return Err(NoPermit::TooLate(wait)),
            }
        }
    }

    /// Counts a request that is sent now, or returns `None` if none may be sent now.
    pub(crate) fn try_send(&self, has_permit: bool) -> Option<Flight<'_>> {
        let (sent_at, mut state) = (Instant::now(), self.state());
        if state.hold(sent_at, has_permit).is_some() {
            return None;
        }
        state.sent(sent_at);
        Some(Flight { host: self, sent_at, has_returned: false })
    }

    /// Charges the first request at the pace that its response has announced: at the pace before, the
    /// charge may have recovered within the round trip.
    pub(crate) async fn charge_first(&self) {
        let limiter = {
            let mut state = self.state();
            state.charge_first();
            state.limiter()
        };
        // If it fails or takes too long, one request more is sent.
        let _ = timeout(PROBE_TIMEOUT, limiter.check(&Key::from(&*self.name))).await;
    }

    /// Follows the response to a request that was sent at `sent_at`, to this host or to one that has
    /// redirected it here. Returns whether the pace has changed or a pause has begun.
    pub(crate) fn learn(&self, sent_at: Instant, advice: &Advice, layer: &ThrottleLayer) -> bool {
        let changes = self.state().learn(sent_at, advice, layer.longest_pause);
        self.report(advice, changes, &layer.reporter)
    }

    fn report(&self, advice: &Advice, changes: Changes, reporter: &Reporter) -> bool {
        let has_changed = changes.pause.is_some() || changes.pace.is_some();
        if has_changed {
            self.changed.notify_waiters();
        }
        for kind in [
            advice.is_refused.then_some(EventKind::Refused { status: advice.status }),
            changes.pause.map(|pause| EventKind::Paused { pause }),
            changes.pace.map(|quota| EventKind::PaceChanged { quota }),
            changes.error.as_ref().map(|error| EventKind::PaceKeptHere { error }),
        ] {
            kind.into_iter().for_each(|kind| reporter.report(&self.name, kind));
        }
        has_changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight<'_> {
    /// Follows the response, as [`Host::learn`] does. Its return is counted in the same moment, so that
    /// no other request is sent by what is out of date.
    pub(crate) fn learn(mut self, advice: &Advice, layer: &ThrottleLayer) -> bool {
        self.has_returned = true;
        let changes = {
            let mut state = self.host.state();
            state.returned(self.sent_at);
            state.learn(self.sent_at, advice, layer.longest_pause)
        };
        self.host.report(advice, changes, &layer.reporter)
    }

    /// Counts the return of a response that says nothing of its host, because it is from a cache. The server
    /// has not counted the request.
    pub(crate) fn ignore(mut self) {
        self.has_returned = true;
        self.host.state().ignore(self.sent_at);
    }

    /// Follows an error instead of a response.
    pub(crate) fn fail(self, failure: String) {
        self.host.state().fail(self.sent_at, failure);
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.has_returned {
            let mut state = self.host.state();
            state.returned(self.sent_at);
            state.spend_one(self.sent_at);
        }
        self.host.returned.notify_waiters();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the output of `work`, or `None` if `stop` is ready first.
async fn unless<T>(stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => stop.as_mut().poll(cx).map(|()| None),
    })
    .await
}
