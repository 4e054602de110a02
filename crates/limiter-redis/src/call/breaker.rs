//! A circuit breaker: while the store fails, calls are refused at once instead of waiting for it.

use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering::Relaxed};

/// Lets calls pass to the store while it replies in time.
///
/// It opens when the last few calls failed one after the other, or most of the last
/// [`Breaker::RECENT`]; a slow reply counts as a failure. While it is open, calls are refused at
/// once. After a short time one call at a time may pass as a probe: its success closes the breaker,
/// its failure keeps it open for longer.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// The epoch while the latest calls all succeeded, or [`TROUBLED`]. A call then reads this word,
    /// writes nothing and takes no lock.
    calm: AtomicU64,
    inner: Mutex<Inner>,
    settings: Settings,
}

/// The latest calls did not all succeed.
const TROUBLED: u64 = u64::MAX;

#[derive(Debug)]
struct Inner {
    /// Counts the transitions and probes. The result of a call counts only in the epoch of its pass.
    epoch: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        /// One bit for each of the recent calls, the latest one lowest: whether it failed.
        history: u32,
    },
    Open {
        since: Instant,
        /// How long calls are refused: for the pause, or while a probe is under way.
        lasts: Duration,
        /// The time between two probes.
        pause: Duration,
    },
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How many failures in a row open it, at least one. More than half of [`Breaker::RECENT`] have no
    /// effect, because it then opens by the recent calls first.
    pub(crate) failures: u32,
    /// How long calls are refused before the first probe. It doubles with each probe that fails, up
    /// to [`Breaker::MAX_OPEN`].
    pub(crate) open: Duration,
    /// The longest time of a call. A reply that takes more than half of it counts as a failure. If a
    /// probe has not ended a second after it, because it is neither polled nor dropped, another call
    /// may probe.
    pub(crate) deadline: Duration,
}

/// The permission to call the store once. If it is dropped without a result, it counts neither as a
/// success nor as a failure, and another call may probe.
#[derive(Debug)]
#[must_use = "a call that is not made holds up the probes"]
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    epoch: u64,
    sent: Instant,
}

/// The breaker is open: the call must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When to try again: not zero, and at most [`Breaker::MAX_OPEN`].
    pub(crate) retry_in: Duration,
}

/// What the result of a call has changed. Each change is returned to one caller only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a transition is returned once"]
pub(crate) enum Transition {
    Opened,
    Closed,
}

impl Breaker {
    /// How many of the latest calls count.
    pub(crate) const RECENT: u32 = 20;

    /// The longest time without a probe.
    pub(crate) const MAX_OPEN: Duration = Duration::from_millis(200);

    const GRACE: Duration = Duration::from_secs(1);

    /// Returns a closed breaker.
    pub(crate) fn new(settings: Settings) -> Self {
        let inner = Inner { epoch: 0, state: State::Closed { history: 0 } };
        Self { calm: AtomicU64::new(0), inner: Mutex::new(inner), settings }
    }

    /// Returns the permission for one call that is sent now.
    #[inline]
    pub(crate) fn pass(&self, now: Instant) -> Result<Pass<'_>, Refused> {
        let calm = self.calm.load(Relaxed);
        let epoch = if calm == TROUBLED { self.probe(now)? } else { calm };
        Ok(Pass { breaker: self, epoch, sent: now })
    }

    /// Returns whether a call that is made now may be sent, if only as a probe.
    #[inline]
    pub(crate) fn may_pass(&self, now: Instant) -> Result<(), Refused> {
        if self.calm.load(Relaxed) == TROUBLED { self.lock().may_pass(now) } else { Ok(()) }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.lock().state, State::Open { .. })
    }

    /// Returns the epoch of a call. If the breaker is open, the call becomes the probe, if one is due.
    #[cold]
    fn probe(&self, now: Instant) -> Result<u64, Refused> {
        let mut inner = self.lock();
        inner.may_pass(now)?;
        if let State::Open { pause, .. } = inner.state {
            let lasts = self.settings.deadline.saturating_add(Self::GRACE);
            self.begin(&mut inner, State::Open { since: now, lasts, pause });
        }
        Ok(inner.epoch)
    }

    /// Counts the result of a call.
    fn note(&self, epoch: u64, failed: bool, now: Instant) -> Option<Transition> {
        if !failed && self.calm.load(Relaxed) == epoch {
            return None;
        }
        let mut inner = self.lock();
        if inner.epoch != epoch {
            return None;
        }
        let (state, transition) = match inner.state {
            State::Closed { history } => {
                let history = (history << 1 | u32::from(failed)) & ((1 << Self::RECENT) - 1);
                if !failed || !self.has_failed(history) {
                    inner.state = State::Closed { history };
                    self.calm.store(if history == 0 { epoch } else { TROUBLED }, Relaxed);
                    return None;
                }
                (State::open(now, self.settings.open), Some(Transition::Opened))
            }
            // A result of this epoch is the probe's.
            State::Open { pause, .. } if failed => (State::open(now, 2 * pause), None),
            State::Open { .. } => (State::Closed { history: 0 }, Some(Transition::Closed)),
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

    const fn has_failed(&self, history: u32) -> bool {
        let in_a_row = history.trailing_ones();
        in_a_row >= self.settings.failures || history.count_ones() * 2 > Self::RECENT
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(since: Instant, pause: Duration) -> Self {
        let pause = pause.min(Breaker::MAX_OPEN);
        Self::Open { since, lasts: pause, pause }
    }
}

impl Inner {
    fn may_pass(&self, now: Instant) -> Result<(), Refused> {
        let State::Open { since, lasts, .. } = self.state else { return Ok(()) };
        let left = lasts.saturating_sub(now.saturating_duration_since(since));
        let retry_in = left.min(Breaker::MAX_OPEN);
        if left.is_zero() { Ok(()) } else { Err(Refused { retry_in }) }
    }
}

impl Pass<'_> {
    /// Records that the store has replied by now, even if it replied with an error.
    #[inline]
    pub(crate) fn succeeded(self, now: Instant) -> Option<Transition> {
        let slow = now.saturating_duration_since(self.sent) > self.breaker.settings.deadline / 2;
        self.breaker.note(self.epoch, slow, now)
    }

    /// Records that the call failed.
    pub(crate) fn failed(self, now: Instant) -> Option<Transition> {
        self.breaker.note(self.epoch, true, now)
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
