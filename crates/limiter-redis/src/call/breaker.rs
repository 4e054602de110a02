//! A circuit breaker: while the store fails, calls are refused at once instead of waiting for it.

use std::time::{Duration, Instant};

use super::sync::{AtomicU64, Ordering::Relaxed};

/// Lets calls pass to the store while it replies in time.
///
/// It opens when the last few calls failed one after the other, or most of the last
/// [`Breaker::RECENT`]; a slow reply counts as a failure. While it is open, calls are refused at
/// once. After a short time one call at a time may pass as a probe: its success closes the breaker,
/// its failure keeps it open for longer.
///
/// While it is closed and all goes well, a call reads one word and writes nothing.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// A [`Word`] with all mutable state, so that a transition is one compare-and-swap, and no other
    /// memory depends on its order.
    word: AtomicU64,
    start: Instant,
    settings: Settings,
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How many failures in a row open it, at least one. More than half of [`Breaker::RECENT`] have no
    /// effect, because it then opens by the recent calls first.
    pub(crate) failures: u32,
    /// A reply that took longer counts as a failure.
    pub(crate) slow: Duration,
    /// How long calls are refused before the first probe. It doubles with each probe that fails, up
    /// to [`Breaker::MAX_OPEN`].
    pub(crate) open: Duration,
    /// The longest time of a call. If a probe has not ended a second after it, because it is neither
    /// polled nor dropped, another call may probe.
    pub(crate) deadline: Duration,
}

/// The permission to call the store once. If it is dropped without a result, it counts neither as a
/// success nor as a failure, and another call may probe.
#[derive(Debug)]
#[must_use = "a call that is not made holds up the probes"]
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    /// The result of a call counts only if there was no transition since.
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

impl Settings {
    /// Returns the settings for calls that end within `deadline`.
    pub(crate) fn new(failures: u32, open: Duration, deadline: Duration) -> Self {
        Self { failures, slow: deadline / 2, open, deadline }
    }
}

impl Breaker {
    /// How many of the latest calls count.
    pub(crate) const RECENT: u32 = 20;

    /// The longest time without a probe.
    pub(crate) const MAX_OPEN: Duration = Duration::from_millis(200);

    const GRACE: Duration = Duration::from_secs(1);

    /// Returns a closed breaker. No later time may be before `now`.
    pub(crate) fn new(settings: Settings, now: Instant) -> Self {
        let word = Word { epoch: 0, state: State::Closed { history: 0 } };
        Self { word: AtomicU64::new(word.pack()), start: now, settings }
    }

    /// Returns the permission for one call that is sent now.
    #[inline]
    pub(crate) fn pass(&self, now: Instant) -> Result<Pass<'_>, Refused> {
        match self.pass_unless_open(now) {
            Some(pass) => Ok(pass),
            None => self.probe(self.word.load(Relaxed), now),
        }
    }

    /// Returns whether a call that is made now may be sent, if only as a probe.
    #[inline]
    pub(crate) fn may_pass(&self, now: Instant) -> Result<(), Refused> {
        let packed = self.word.load(Relaxed);
        if Word::is_closed(packed) {
            return Ok(());
        }
        let State::Open { until, .. } = Word::unpack(packed).state else { return Ok(()) };
        self.time_left(until, now).map_or(Ok(()), Err)
    }

    pub(crate) fn is_open(&self) -> bool {
        !Word::is_closed(self.word.load(Relaxed))
    }

    #[inline]
    fn pass_unless_open(&self, now: Instant) -> Option<Pass<'_>> {
        let packed = self.word.load(Relaxed);
        let pass = || Pass { breaker: self, epoch: Word::unpack(packed).epoch, sent: now };
        Word::is_closed(packed).then(pass)
    }

    /// Returns the permission for a probe, if one is due and none is under way.
    #[cold]
    fn probe(&self, mut packed: u64, now: Instant) -> Result<Pass<'_>, Refused> {
        loop {
            let Word { epoch, state } = Word::unpack(packed);
            let State::Open { until, failed_probes } = state else {
                return Ok(Pass { breaker: self, epoch, sent: now });
            };
            if let Some(refused) = self.time_left(until, now) {
                return Err(refused);
            }
            let until = self.until(now, self.settings.deadline.saturating_add(Self::GRACE));
            let probing = Word { epoch, state: State::Open { until, failed_probes } }.next();
            match self.exchange(packed, probing) {
                Ok(_) => return Ok(Pass { breaker: self, epoch: probing.epoch, sent: now }),
                Err(found) => packed = found,
            }
        }
    }

    fn time_left(&self, until: u64, now: Instant) -> Option<Refused> {
        let left = Duration::from_millis(until).saturating_sub(self.since_start(now));
        (!left.is_zero()).then(|| Refused { retry_in: left.min(Self::MAX_OPEN) })
    }

    /// Counts the result of a call.
    fn note(&self, epoch: u64, failed: bool, now: Instant) -> Option<Transition> {
        let mut packed = self.word.load(Relaxed);
        loop {
            let word = Word::unpack(packed);
            if word.epoch != epoch {
                return None;
            }
            let (next, transition) = match word.state {
                // Nothing to record: the latest calls all succeeded.
                State::Closed { history: 0 } if !failed => return None,
                State::Closed { history } => {
                    let history = (history << 1 | u64::from(failed)) & RECENT_CALLS;
                    if failed && self.has_failed(history) {
                        let state = self.open(now, 0);
                        (Word { epoch, state }.next(), Some(Transition::Opened))
                    } else {
                        (Word { epoch, state: State::Closed { history } }, None)
                    }
                }
                // A result of this epoch is the probe's.
                State::Open { failed_probes, .. } if failed => {
                    let state = self.open(now, failed_probes + 1);
                    (Word { epoch, state }.next(), None)
                }
                State::Open { .. } => {
                    let state = State::Closed { history: 0 };
                    (Word { epoch, state }.next(), Some(Transition::Closed))
                }
            };
            match self.exchange(packed, next) {
                Ok(_) => return transition,
                Err(found) => packed = found,
            }
        }
    }

    /// Lets another call probe.
    #[cold]
    fn give_back(&self, epoch: u64) {
        let packed = self.word.load(Relaxed);
        let word = Word::unpack(packed);
        if let State::Open { failed_probes, .. } = word.state
            && word.epoch == epoch
        {
            let free = Word { epoch, state: State::Open { until: 0, failed_probes } }.next();
            // If it fails, another call has become the probe.
            _ = self.exchange(packed, free);
        }
    }

    const fn has_failed(&self, history: u64) -> bool {
        let in_a_row = history.trailing_ones();
        in_a_row >= self.settings.failures || history.count_ones() * 2 > Self::RECENT
    }

    fn open(&self, now: Instant, failed_probes: u32) -> State {
        let failed_probes = failed_probes.min(MAX_FAILED_PROBES);
        let open = self.settings.open.saturating_mul(1 << failed_probes).min(Self::MAX_OPEN);
        State::Open { until: self.until(now, open), failed_probes }
    }

    /// Returns the time `after` now, in milliseconds since the start, rounded up.
    fn until(&self, now: Instant, after: Duration) -> u64 {
        let at = self.since_start(now).saturating_add(after);
        u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.start)
    }

    fn exchange(&self, from: u64, to: Word) -> Result<u64, u64> {
        self.word.compare_exchange(from, to.pack(), Relaxed, Relaxed)
    }
}

impl Pass<'_> {
    /// Records that the store has replied by now, even if it replied with an error.
    #[inline]
    pub(crate) fn succeeded(self, now: Instant) -> Option<Transition> {
        let slow = now.saturating_duration_since(self.sent) > self.breaker.settings.slow;
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
        if !Word::is_closed(self.breaker.word.load(Relaxed)) {
            self.breaker.give_back(self.epoch);
        }
    }
}

/// The breaker's state, and the number of transitions and probes before it.
#[derive(Clone, Copy)]
struct Word {
    /// Wraps around after a million: a call would have to be late by exactly as many to be mistaken
    /// for a new one.
    epoch: u64,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Closed {
        /// One bit for each of the latest calls, the last one lowest, set where it failed.
        history: u64,
    },
    Open {
        /// When the next probe may pass, in milliseconds since the start.
        until: u64,
        failed_probes: u32,
    },
}

/// One bit for each recent call.
const RECENT_CALLS: u64 = (1 << Breaker::RECENT) - 1;

/// More failed probes do not lengthen the time between probes.
const MAX_FAILED_PROBES: u32 = 7;

// From the lowest bit: the history, or until; the failed probes; the epoch; whether it is open.
const FAILED_PROBES_AT: u32 = 40;
const EPOCH_AT: u32 = 43;
const OPEN_AT: u32 = 63;

const LOW: u64 = (1 << FAILED_PROBES_AT) - 1;
const EPOCHS: u64 = (1 << (OPEN_AT - EPOCH_AT)) - 1;

impl Word {
    const fn is_closed(packed: u64) -> bool {
        packed >> OPEN_AT == 0
    }

    const fn pack(self) -> u64 {
        let state = match self.state {
            State::Closed { history } => history,
            State::Open { until, failed_probes } => {
                // Reached after 34 years; the breaker then probes at once.
                let until = if until > LOW { LOW } else { until };
                1 << OPEN_AT | (failed_probes as u64) << FAILED_PROBES_AT | until
            }
        };
        state | (self.epoch & EPOCHS) << EPOCH_AT
    }

    const fn unpack(packed: u64) -> Self {
        let state = if Self::is_closed(packed) {
            State::Closed { history: packed & RECENT_CALLS }
        } else {
            let failed_probes = (packed >> FAILED_PROBES_AT) as u32 & MAX_FAILED_PROBES;
            State::Open { until: packed & LOW, failed_probes }
        };
        Self { epoch: packed >> EPOCH_AT & EPOCHS, state }
    }

    /// Returns the word with the next epoch, so that calls of this epoch don't count any more.
    const fn next(self) -> Self {
        Self { epoch: (self.epoch + 1) & EPOCHS, state: self.state }
    }
}
