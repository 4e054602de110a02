//! The pace of one host, its pause, and what it has left.

use std::{sync::Arc, time::Duration};

use limiter_core::{Error, Limiter as _, Quota, WaitingLimiter};
use tokio::time::Instant;

use crate::{
    advice::Advice,
    backoff::{Backoff, Meter},
    bucket::Bucket,
    pace::Pace,
    window::{Hold, Window},
};

/// The slowest pace that refusals without a time lead to: one request in ten minutes.
const SLOWEST_BACKOFF: Duration = Duration::from_secs(600);

/// The pace of one host, its pause, and what it has left.
pub(crate) struct State {
    /// As the layer was given it.
    fastest: Arc<dyn WaitingLimiter>,
    fastest_pace: Pace,
    /// On the same states, by the present pace.
    limiter: Arc<dyn WaitingLimiter>,
    pace: Pace,
    /// Whether the pace has ever changed. Then `limiter` may not have counted what was sent before: in memory, a
    /// pace of another span has states of its own. It may also have another pace, if it could not take the present one.
    has_changed: bool,
    /// What this process has sent, in permits of the present pace.
    bucket: Bucket,
    paused_until: Option<Instant>,
    /// When the present pause began, if there is one.
    pause_began: Instant,
    /// What remains until the reset, by the responses so far.
    window: Window,
    /// Whether the first request is over, so that the host's limits are known if it announces any.
    is_probed: bool,
    /// The error of the last request, if no response has arrived since.
    failure: Option<String>,
    announced: Option<Pace>,
    /// When the request was sent whose response announced it.
    announced_at: Option<Instant>,
    /// The rate that refusals without an explanation have left.
    backoff: Option<Backoff>,
    meter: Meter,
}

/// What a response has changed.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) pause: Option<Duration>,
    pub(crate) pace: Option<Quota>,
    /// Why the limiter could not take the pace.
    pub(crate) error: Option<Error>,
}

impl State {
    pub(crate) fn new(fastest: Arc<dyn WaitingLimiter>) -> Self {
        let pace = Pace::of_policy(fastest.policy());
        Self {
            limiter: Arc::clone(&fastest),
            fastest,
            fastest_pace: pace,
            pace,
            has_changed: false,
            bucket: Bucket::new(Instant::now()),
            paused_until: None,
            pause_began: Instant::now(),
            window: Window::default(),
            is_probed: false,
            failure: None,
            announced: None,
            announced_at: None,
            backoff: None,
            meter: Meter::new(Instant::now()),
        }
    }

    pub(crate) fn limiter(&self) -> Arc<dyn WaitingLimiter> {
        Arc::clone(&self.limiter)
    }

    pub(crate) const fn is_probed(&self) -> bool {
        self.is_probed
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Ends the wait for the first response, which may have failed.
    pub(crate) fn set_probed(&mut self, failure: Option<String>) {
        self.is_probed = true;
        self.failure = failure;
    }

    /// Returns why no request may be sent now, if that is so. `has_permit` is whether the limiter does or will
    /// admit the request.
    ///
    /// This process keeps the pace as well, unless the limiter has counted all requests: a new pace gives no new
    /// burst. Before the first change it does not, because the timer of a limiter may be finer than tokio's.
    pub(crate) fn hold(&mut self, now: Instant, has_permit: bool) -> Option<Hold> {
        let pause = self.paused_until.map(|until| until.saturating_duration_since(now));
        let is_kept_here = self.has_changed || !has_permit;
        let wait = pause.max(is_kept_here.then(|| self.bucket.wait(now, self.pace)));
        let wait = wait.unwrap_or_default();
        match self.window.hold(now) {
            Some(Hold::For(longer)) if longer > wait => Some(Hold::For(longer)),
            held if wait.is_zero() => held,
            _ => Some(Hold::For(wait)),
        }
    }

    /// Counts a request that is sent now.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.meter.count(now);
        self.bucket.take(now, self.pace);
        self.window.sent(now);
    }

    /// Charges the first request at the present pace, as far as it is not charged yet.
    pub(crate) fn charge_first(&mut self) {
        self.bucket.take_first(Instant::now(), self.pace);
    }

    /// Removes a request from those in flight.
    pub(crate) fn returned(&mut self, sent_at: Instant) {
        self.window.returned(sent_at, Instant::now());
    }

    /// Counts a request whose response did not say what remains.
    pub(crate) fn spend_one(&mut self, sent_at: Instant) {
        self.window.spend_one(sent_at);
    }

    /// Follows a response from a cache.
    pub(crate) fn ignore(&mut self, sent_at: Instant) {
        self.set_probed(None);
        self.returned(sent_at);
        self.window.give_up(sent_at);
    }

    /// Follows the error of a request, instead of a response.
    pub(crate) fn fail(&mut self, sent_at: Instant, failure: String) {
        self.set_probed(Some(failure));
        self.window.give_up(sent_at);
    }

    /// Follows the response to a request that was sent at `sent_at`.
    pub(crate) fn learn(
        &mut self,
        sent_at: Instant,
        advice: &Advice,
        longest_pause: Duration,
    ) -> Changes {
        let now = Instant::now();
        self.set_probed(None);
        if self.paused_until <= Some(now) {
            self.pause_began = now;
        }
        // Also of several responses, whose requests were in flight together.
        let latest = self.pause_began + longest_pause;
        let until = advice.pause.map(|pause| (now + pause.min(longest_pause)).min(latest));
        let is_paused = until > self.paused_until;
        self.paused_until = self.paused_until.max(until);
        self.window.learn(sent_at, now, advice, longest_pause);
        // Responses may arrive out of order, and an old announcement must not replace a new one.
        let is_newer = self.announced_at.is_none_or(|latest| latest <= sent_at);
        let is_over = self
            .announced_at
            .is_some_and(|latest| sent_at.saturating_duration_since(latest) >= longest_pause);
        if advice.pace.is_some() && is_newer || is_over {
            (self.announced, self.announced_at) = (advice.pace, Some(sent_at));
        }
        // A refusal with a time, by a host that announces limits, is followed by the pause and what was
        // announced alone.
        let is_announced = self.announced.is_some() || self.window.is_announced();
        self.backoff = if advice.is_refused && !(advice.is_timed && is_announced) {
            let pace = self.pace.rate();
            Some(Backoff::refused(self.backoff, pace, &self.meter, sent_at, now))
        } else {
            self.backoff.map(|backoff| backoff.admitted(now))
        };
        let changes = self.set_pace(longest_pause);
        Changes { pause: until.filter(|_| is_paused).map(|until| until - now), ..changes }
    }

    /// Sets the slowest of the paces.
    fn set_pace(&mut self, longest_pause: Duration) -> Changes {
        let announced = self.announced.map(|pace| pace.at_least_one_in(longest_pause));
        let left = self.backoff.and_then(|it| Pace::computed(it.rate, self.fastest_pace.burst()));
        let left = left.map(|pace| pace.at_least_one_in(longest_pause.min(SLOWEST_BACKOFF)));
        let pace = [announced, left].into_iter().flatten().fold(self.fastest_pace, Pace::slower);
        if pace == self.pace {
            return Changes::default();
        }
        let taken = if pace == self.fastest_pace {
            Ok(Arc::clone(&self.fastest))
        } else {
            let policy = pace.policy(self.fastest.policy().name());
            policy.and_then(|policy| self.fastest.waiting_with_policy(&policy))
        };
        self.bucket.settle(Instant::now(), self.pace);
        self.pace = pace;
        let (limiter, error) = match taken {
            Ok(limiter) => (limiter, None),
            // The fastest pace of the limiter, and the pace in this process: never faster than the pace.
            Err(error) => (Arc::clone(&self.fastest), Some(error)),
        };
        (self.limiter, self.has_changed) = (limiter, true);
        Changes { pause: None, pace: Some(pace.quota()), error }
    }
}
