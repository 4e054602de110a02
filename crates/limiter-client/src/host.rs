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

use http::{HeaderMap, StatusCode};
use limiter_core::{Cost, Error, Key, Limiter as _, WaitingLimiter};
use tokio::{
    sync::{Mutex as Turn, MutexGuard as TurnGuard, Notify},
    time::{Instant, sleep},
};

use crate::{
    announcement::{Announcement, retry_after},
    permit::Permit,
    state::State,
};

/// One host.
///
/// Requests queue for the turn, and only the one that has it asks the limiter, until it is sent. So when
/// the pace changes, one permit is given back and asked for anew, and not one for each request that
/// waits; and while the inner service is not ready, no permits pile up. The first request to a host
/// keeps the turn until its response has arrived.
pub(crate) struct Host {
    name: String,
    turn: Turn<()>,
    waiting: AtomicUsize,
    state: Mutex<State>,
    /// Notified when the pace changes or a pause begins.
    changed: Notify,
}

/// Why a request received no permit.
pub(crate) enum NoPermit {
    /// There will be one after this time, which is too late.
    TooLate(Option<Duration>),
    Store(Error),
}

/// A place among the requests that wait for a host.
pub(crate) struct Place<'h>(&'h AtomicUsize);

impl Host {
    /// `limiter` has the fastest pace that the host may be sent requests at.
    pub(crate) fn new(name: &str, limiter: Arc<dyn WaitingLimiter>) -> Self {
        Self {
            name: name.to_owned(),
            turn: Turn::default(),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State::new(limiter)),
            changed: Notify::new(),
        }
    }

    /// Returns a place in the queue, or `None` if it has `most` requests.
    pub(crate) fn enter(&self, most: usize) -> Option<Place<'_>> {
        let place = Place(&self.waiting);
        (self.waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    /// Returns for how long no request may be sent.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.state().pause(Instant::now())
    }

    /// Returns the turn once all requests before this one were sent, in the order of the calls.
    pub(crate) async fn turn(&self) -> TurnGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Returns whether a response has arrived.
    pub(crate) fn has_answered(&self) -> bool {
        self.state().has_answered()
    }

    /// Returns a permit to send one request, once no pause is on and the limiter admits it. It is given
    /// back if it is dropped before the request is sent.
    pub(crate) async fn permit(&self, deadline: Instant) -> Result<Permit, NoPermit> {
        let left = || deadline.saturating_duration_since(Instant::now());
        loop {
            // From before the state is read, so that no change after that is missed.
            let changed = self.changed.notified();
            let (limiter, pause) = {
                let state = self.state();
                (state.limiter(), state.pause(Instant::now()))
            };
            if let Some(pause) = pause {
                if pause > left() {
                    return Err(NoPermit::TooLate(Some(pause)));
                }
                sleep(pause).await;
                continue;
            }
            let asked = limiter.acquire(&Key::from(self.name.as_str()), Cost::ONE, Some(left()));
            let Some(reserved) = unless(changed, asked).await else {
                continue;
            };
            let reserved = reserved.map_err(NoPermit::Store)?;
            let wait = reserved.decision().retry_after();
            if let Some(receipt) = reserved.into_receipt() {
                return Ok(Permit::new(limiter, receipt));
            }
            match wait.filter(|wait| *wait <= left()) {
                // Behind a debt of another pace, which another process may have, nothing is promised.
                Some(wait) => sleep(wait).await,
                None => return Err(NoPermit::TooLate(wait)),
            }
        }
    }

    /// Counts a request that is sent now, and returns the moment.
    pub(crate) fn sent(&self, permit: Option<Permit>) -> Instant {
        let now = Instant::now();
        self.state().count(now);
        if let Some(permit) = permit {
            permit.commit();
        }
        now
    }

    /// Charges the first request at the pace that its response has announced: at the pace before, the
    /// charge may have recovered within the round trip.
    pub(crate) async fn charge_first(&self) {
        let limiter = self.state().limiter();
        // If it fails, one request more is sent.
        let charged = limiter.check(&Key::from(self.name.as_str()));
        drop(charged.await);
    }

    /// Follows what a response says, to a request that was sent at `sent_at`. Returns whether the pace
    /// has changed or a pause has begun.
    pub(crate) fn learn(
        &self,
        sent_at: Instant,
        status: StatusCode,
        headers: &HeaderMap,
        longest_pause: Duration,
    ) -> bool {
        let retry_after = retry_after(headers);
        let is_refused = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE && retry_after.is_some();
        let announcement = Announcement::read(headers);
        let pause = if is_refused { retry_after } else { None }.max(announcement.pause());
        let has_changed =
            self.state().learn(sent_at, is_refused, pause, announcement.pace(), longest_pause);
        if has_changed {
            self.changed.notify_waiters();
        }
        has_changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
