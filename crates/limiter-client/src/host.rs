//! What is known of one host, and the queue of the requests to it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use limiter_core::{Cost, Error, Key, OnStoreFailure, WaitingLimiter};
use tokio::{
    sync::{Mutex as Queue, MutexGuard as Front, Notify},
    time::{Instant, sleep, timeout},
};

use crate::{
    advice::Advice,
    event::{EventKind, Reporter},
    permit::Permit,
    settings::Settings,
    state::{Changes, State},
    window::Hold,
};

/// One host.
///
/// Requests form a queue, and only the one at its front asks the limiter, until it is sent. So when
/// the pace changes, one permit is given back and asked for anew, and not one for each request that
/// waits; and while the inner service is not ready, no permits pile up.
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    queue: Queue<()>,
    waiting: AtomicUsize,
    state: Mutex<State>,
    made_at: Instant,
    /// Until when it is paused, in seconds from when it was made. Read without a lock.
    paused_for: AtomicU64,
    /// Notified when the pace changes, a pause begins, or the first request has ended.
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
            made_at: Instant::now(),
            paused_for: AtomicU64::new(0),
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
    pub(crate) fn pause(&self, settings: &Settings) -> Option<Duration> {
        match self.state().hold(Instant::now(), true, settings.longest_pause)? {
            Hold::For(pause) => Some(pause),
            Hold::UntilResponse(_) => None,
        }
    }

    /// Returns whether a pause is not over, without a lock.
    pub(crate) fn is_paused(&self) -> bool {
        self.made_at.elapsed().as_secs() < self.paused_for.load(Ordering::Relaxed)
    }

    /// Returns the text of the last request's error, if no response has arrived since.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failure().map(str::to_owned)
    }

    /// Returns the front of the queue once all requests before this one were sent, in the order of the calls.
    pub(crate) async fn front(&self) -> Front<'_, ()> {
        self.queue.lock().await
    }

    /// Returns a permit to send one request, once nothing holds it and the limiter admits it. It is given
    /// back if it is dropped before the request is sent.
    ///
    /// Returns `None` if the limiter's store has failed, or the limiter does not count what it admits, and the
    /// request may be sent at the pace that this process keeps; or if the longest pause has passed since the last
    /// request.
    pub(crate) async fn permit(
        &self,
        deadline: Instant,
        settings: &Settings,
    ) -> Result<Option<Permit>, NoPermit> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut is_counted = true;
        loop {
            // From before the state is read, so that no change after that is missed.
            let (changed, returned) = (self.changed.notified(), self.returned.notified());
            let (limiter, hold, most) = {
                let (now, longest) = (Instant::now(), settings.longest_pause);
                let mut state = self.state();
                let hold = state.hold(now, is_counted, longest);
                (state.limiter(), hold, state.overdue_in(now, longest))
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
                None if !is_counted || most.is_zero() => return Ok(None),
                None => {}
            }
            let asked = limiter.acquire(&Key::from(&*self.name), Cost::ONE, Some(left()));
            let Ok(Some(reserved)) = timeout(most, unless(changed, asked)).await else {
                continue;
            };
            let reserved = match reserved {
                Ok(reserved) => reserved,
                Err(error) => {
                    settings.reporter.report(&self.name, EventKind::StoreFailed { error: &error });
                    match settings.on_store_failure {
                        OnStoreFailure::Allow => is_counted = false,
                        OnStoreFailure::Deny => return Err(NoPermit::Store(error)),
                    }
                    continue;
                }
            };
            let (is_admitted, wait) = (reserved.is_admitted(), reserved.decision().retry_after());
            if let Some(receipt) = reserved.into_receipt() {
                let (host, reporter) = (Arc::clone(&self.name), settings.reporter.clone());
                return Ok(Some(Permit { limiter, receipt: Some(receipt), host, reporter }));
            }
            if is_admitted {
                is_counted = false;
                continue;
            }
            // Behind a debt of another pace, which another process may have, nothing is promised.
            match wait.unwrap_or(Duration::MAX).min(most) {
                wait if wait <= left() => sleep(wait).await,
                _ => return Err(NoPermit::TooLate(wait)),
            }
        }
    }

    /// Counts a request that is sent now, or returns `None` if none may be sent now. `has_waited` is whether time has passed
    /// since its permit.
    pub(crate) fn try_send(
        &self,
        has_permit: bool,
        has_waited: bool,
        settings: &Settings,
    ) -> Option<Flight<'_>> {
        let (sent_at, mut state) = (Instant::now(), self.state());
        if state.hold(sent_at, has_permit, settings.longest_pause).is_some() {
            return None;
        }
        state.sent(sent_at, has_permit && !has_waited);
        Some(Flight { host: self, sent_at, has_returned: false })
    }

    /// Follows the response to a request that was sent at `sent_at`: one of this host that is in flight, or one to another
    /// host that has redirected it here.
    pub(crate) fn learn(
        &self,
        sent_at: Instant,
        is_in_flight: bool,
        advice: &Advice,
        settings: &Settings,
    ) {
        let changes = {
            let mut state = self.state();
            // In the same moment, so that no other request is sent by what is out of date.
            if is_in_flight {
                state.returned(sent_at);
            }
            let changes = state.learn(sent_at, advice, settings.longest_pause);
            if state.ended(None) || changes.pause.is_some() || changes.pace.is_some() {
                self.changed.notify_waiters();
            }
            let paused = state.paused_until().map_or(Duration::ZERO, |at| at - self.made_at);
            self.paused_for.store(paused.as_secs(), Ordering::Relaxed);
            changes
        };
        self.report(advice, &changes, &settings.reporter);
    }

    fn report(&self, advice: &Advice, changes: &Changes, reporter: &Reporter) {
        for kind in [
            advice.is_refused.then_some(EventKind::Refused { status: advice.status }),
            changes.pause.map(|pause| EventKind::Paused { pause }),
            changes.pace.map(|quota| EventKind::PaceChanged { quota }),
            changes.error.as_ref().map(|error| EventKind::PaceKeptHere { error }),
        ] {
            kind.into_iter().for_each(|kind| reporter.report(&self.name, kind));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight<'_> {
    /// Follows the response.
    pub(crate) fn learn(mut self, advice: &Advice, settings: &Settings) {
        self.has_returned = true;
        self.host.learn(self.sent_at, true, advice, settings);
    }

    /// Follows a response from a cache, which says nothing of the host: the server has not counted the request.
    pub(crate) fn ignore(mut self) {
        self.has_returned = true;
        self.host.state().returned(self.sent_at);
        self.give_up(None);
    }

    /// Follows an error instead of a response.
    pub(crate) fn fail(self, failure: String) {
        self.give_up(Some(failure));
    }

    /// Follows what says nothing of the host's limits: an error, or a response of another host or from a cache.
    pub(crate) fn give_up(self, failure: Option<String>) {
        if self.host.state().give_up(self.sent_at, failure) {
            self.host.changed.notify_waiters();
        }
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
