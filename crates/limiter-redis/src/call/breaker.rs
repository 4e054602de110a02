//! A circuit breaker: while the store fails, calls are refused at once instead of waiting for it.

use std::{sync::PoisonError, time::Duration};

use limiter_core::Timestamp;

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering::Relaxed};
use crate::events::Transition;

/// Lets calls pass to the store while it replies.
///
/// It opens after several failures without a reply in between. Calls that were under way together when the
/// store failed are one failure, however many they are, and so are those that fail within
/// [`Breaker::APART`]: a lost connection or a pause of the store counts once. While it is open, calls are
/// refused at once. After a short time one call at a time may pass as a probe: its success closes the
/// breaker, its failure keeps it open for longer.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// The epoch while the latest call succeeded, or [`TROUBLED`]. A call then reads this word,
    /// writes nothing and takes no lock.
    calm: AtomicU64,
    inner: Mutex<Inner>,
    settings: Settings,
}

/// The latest call did not succeed.
const TROUBLED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Inner {
    /// Counts the transitions and probes. The result of a call counts only in the epoch of its pass.
    epoch: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        /// Failures since the last reply.
        failures: u32,
        /// When the last of them was counted.
        counted: Option<Timestamp>,
    },
    Open {
        since: Timestamp,
        /// How long calls are refused: for the pause, or while a probe is under way.
        lasts: Duration,
        /// The time between two probes.
        pause: Duration,
    },
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How many failures in a row open it, at least one.
    pub(crate) failures: u32,
    /// How long calls are refused before the first probe. It doubles with each probe that fails, up
    /// to [`Breaker::MAX_OPEN`].
    pub(crate) open: Duration,
    /// The longest time of a call. If a probe has not ended a second after it, because it is neither polled
    /// nor dropped, another call may probe.
    pub(crate) deadline: Duration,
}

/// The permission to call the store once. If it is dropped without a result, it counts neither as a
/// success nor as a failure, and another call may probe.
#[derive(Debug)]
#[must_use = "a call that is not made holds up the probes"]
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    epoch: u64,
    sent: Timestamp,
}

/// The breaker is open: the call must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open;

impl Breaker {
    /// The shortest time between two failures that count. A connection that was closed is made again in
    /// less; a server that refuses connections is left alone after five of them, a tenth of a second.
    pub(crate) const APART: Duration = Duration::from_millis(25);

    /// The longest time without a probe.
    pub(crate) const MAX_OPEN: Duration = Duration::from_millis(200);

    const GRACE: Duration = Duration::from_secs(1);

    /// Returns a closed breaker.
    pub(crate) fn new(settings: Settings) -> Self {
        let inner = Inner { epoch: 0, state: State::CALM };
        Self { calm: AtomicU64::new(0), inner: Mutex::new(inner), settings }
    }

    /// Returns the permission for one call that is sent now.
    #[inline]
    pub(crate) fn pass(&self, now: Timestamp) -> Result<Pass<'_>, Open> {
        let calm = self.calm.load(Relaxed);
        let epoch = if calm == TROUBLED { self.probe(now)? } else { calm };
        Ok(Pass { breaker: self, epoch, sent: now })
    }

    /// Returns whether a call that is made now may be sent, if only as a probe.
    #[inline]
    pub(crate) fn may_pass(&self, now: Timestamp) -> Result<(), Open> {
        if self.calm.load(Relaxed) == TROUBLED { self.lock().may_pass(now) } else { Ok(()) }
    }

    /// Records that a caller gave up on a call that was made at `sent`, and whose outcome is not known.
    pub(crate) fn timed_out(&self, sent: Timestamp, now: Timestamp) -> Option<Transition> {
        let Inner { epoch, state } = *self.lock();
        matches!(state, State::Closed { .. }).then(|| self.note(epoch, sent, Some(now))).flatten()
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.lock().state, State::Open { .. })
    }

    /// Returns the epoch of a call. If the breaker is open, the call becomes the probe, if one is due.
    #[cold]
    fn probe(&self, now: Timestamp) -> Result<u64, Open> {
        let mut inner = self.lock();
        inner.may_pass(now)?;
        if let State::Open { pause, .. } = inner.state {
            let lasts = self.settings.deadline.saturating_add(Self::GRACE);
            self.begin(&mut inner, State::Open { since: now, lasts, pause });
        }
        Ok(inner.epoch)
    }

    /// Counts the result of a call that was sent at `sent`.
    fn note(
        &self,
        epoch: u64,
        sent: Timestamp,
        failed_at: Option<Timestamp>,
    ) -> Option<Transition> {
        if failed_at.is_none() && self.calm.load(Relaxed) == epoch {
            return None;
        }
        let mut inner = self.lock();
        if inner.epoch != epoch {
            return None;
        }
        let (state, transition) = match (inner.state, failed_at) {
            (State::Closed { .. }, None) => {
                inner.state = State::CALM;
                self.calm.store(epoch, Relaxed);
                return None;
            }
            (State::Closed { counted: Some(last), .. }, Some(now))
                if sent < last || now.saturating_since(last) < Self::APART =>
            {
                return None;
            }
            (State::Closed { failures, .. }, Some(now)) => {
                let failures = failures + 1;
                if failures < self.settings.failures {
                    inner.state = State::Closed { failures, counted: Some(now) };
                    self.calm.store(TROUBLED, Relaxed);
                    return None;
                }
                (State::open(now, self.settings.open), Some(Transition::Opened))
            }
            // A result of this epoch is the probe's.
            (State::Open { pause, .. }, Some(now)) => {
                (State::open(now, pause.saturating_mul(2)), None)
            }
            (State::Open { .. }, None) => (State::CALM, Some(Transition::Closed)),
        };
        self.begin(&mut inner, state);
        transition
    }

    /// Lets another call probe.
    #[cold]
    fn give_back(&self, epoch: u64) {
        let mut inner = self.lock();
        if let State::Open { since, pause, .. } = inner.state
            && inner.epoch == epoch
        {
            self.begin(&mut inner, State::Open { since, lasts: Duration::ZERO, pause });
        }
    }

    /// Begins the next epoch, so that calls of this one don't count any more.
    fn begin(&self, inner: &mut Inner, state: State) {
        *inner = Inner { epoch: inner.epoch + 1, state };
        let is_closed = matches!(state, State::Closed { .. });
        self.calm.store(if is_closed { inner.epoch } else { TROUBLED }, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    const CALM: Self = Self::Closed { failures: 0, counted: None };

    fn open(since: Timestamp, pause: Duration) -> Self {
        let pause = pause.min(Breaker::MAX_OPEN);
        Self::Open { since, lasts: pause, pause }
    }
}

impl Inner {
    fn may_pass(&self, now: Timestamp) -> Result<(), Open> {
        let State::Open { since, lasts, .. } = self.state else { return Ok(()) };
        let is_over = now.saturating_since(since) >= lasts;
        if is_over { Ok(()) } else { Err(Open) }
    }
}

impl Pass<'_> {
    /// Returns when the call was sent.
    pub(crate) const fn sent(&self) -> Timestamp {
        self.sent
    }

    /// Records that the store has replied, even if it replied with an error.
    #[inline]
    pub(crate) fn succeeded(self) -> Option<Transition> {
        self.breaker.note(self.epoch, self.sent, None)
    }

    /// Records that the call failed.
    pub(crate) fn failed(self, now: Timestamp) -> Option<Transition> {
        self.breaker.note(self.epoch, self.sent, Some(now))
    }
}

impl Drop for Pass<'_> {
    // After a result this does nothing, because a probe's result has ended its epoch.
    #[inline]
    fn drop(&mut self) {
        if self.breaker.calm.load(Relaxed) == TROUBLED {
            self.breaker.give_back(self.epoch);
        }
    }
}
