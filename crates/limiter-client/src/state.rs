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

/// The slowest pace that refusals lead to: one request in ten minutes.
const SLOWEST_BACKOFF: Duration = Duration::from_secs(600);

/// The pace of one host, its pause, and what it has left.
pub(crate) struct State {
    /// As the layer was given it.
    fastest: Arc<dyn WaitingLimiter>,
    fastest_pace: Pace,
    /// On the same states, by the present pace.
    limiter: Arc<dyn WaitingLimiter>,
    pace: Pace,
    /// Whether the limiter may not have counted all requests when they were sent: one was sent without a permit or after it,
    /// or the pace has changed. In memory, a pace of another span has states of its own, and the limiter keeps its own pace if
    /// it could not take the present one.
    has_uncounted: bool,
    /// What this process has sent, in permits of the present pace.
    bucket: Bucket,
    paused_until: Option<Instant>,
    /// What remains until the reset, by the responses so far.
    window: Window,
    /// Whether a request has ended, so that the host's limits are known if it announces any.
    is_known: bool,
    /// How many requests were sent before.
    sent_before: u64,
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
            has_uncounted: false,
            bucket: Bucket::new(Instant::now()),
            paused_until: None,
            window: Window::default(),
            is_known: false,
            sent_before: 0,
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

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the end of the present pause, which may be past.
    pub(crate) const fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Returns the time until a request is sent without a permit, because the longest pause has passed since the last one.
    /// The layer's own pace may be slower than that: then its limiter is waited for.
    pub(crate) fn overdue_in(&self, now: Instant, longest_pause: Duration) -> Duration {
        let last = self.window.last_sent().filter(|_| longest_pause > self.fastest_pace.interval());
        last.map_or(Duration::MAX, |last| (last + longest_pause).saturating_duration_since(now))
    }

    /// Returns why no request may be sent now, if that is so. `has_permit` is whether the limiter does or will
    /// admit the request.
    ///
    /// This process keeps the pace as well, unless the limiter has counted all requests: a new pace gives no new
    /// burst. Before the first change it does not, because the timer of a limiter may be finer than tokio's. Until the
    /// first request has ended, others follow at the pace, without its burst.
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        has_permit: bool,
        longest_pause: Duration,
    ) -> Option<Hold> {
        let left = |until: Instant| until.saturating_duration_since(now);
        let pause = self.paused_until.map(left);
        let is_kept_here = self.has_uncounted || !has_permit;
        let kept = is_kept_here.then(|| self.bucket.wait(now, self.pace));
        let before = self.window.last_sent().filter(|_| !self.is_known);
        let first = before.map(|sent| left(sent + self.pace.interval().min(longest_pause)));
        let wait = pause.max(kept).max(first).unwrap_or_default();
        let hold = match self.window.hold(now) {
            Some(Hold::For(longer)) if longer > wait => Some(Hold::For(longer)),
            held if wait.is_zero() => held,
            _ => Some(Hold::For(wait)),
        };
        let longest = longest_pause.max(self.fastest_pace.interval());
        let most = self.window.last_sent().map_or(Duration::MAX, |sent| left(sent + longest));
        hold.and_then(|hold| hold.at_most(most))
    }

    /// Counts a request that is sent now. `is_counted` is whether the limiter has counted it now.
    pub(crate) fn sent(&mut self, now: Instant, is_counted: bool) {
        self.has_uncounted |= !is_counted;
        self.meter.count(now);
        self.sent_before += u64::from(!self.is_known);
        self.bucket.take(now, self.pace);
        self.window.sent(now);
    }

    /// Removes a request from those in flight.
    pub(crate) fn returned(&mut self, sent_at: Instant) {
        self.window.returned(sent_at, Instant::now());
    }

    /// Counts a request whose response did not say what remains.
    pub(crate) fn spend_one(&mut self, sent_at: Instant) {
        self.window.spend_one(sent_at);
    }

    /// Notes that a request has ended, with an error or without one. Returns whether it was the first.
    pub(crate) fn ended(&mut self, failure: Option<String>) -> bool {
        self.failure = failure;
        !std::mem::replace(&mut self.is_known, true)
    }

    /// Follows an error, or a response of another host or from a cache: none says anything of the host's limits.
    pub(crate) fn give_up(&mut self, sent_at: Instant, failure: Option<String>) -> bool {
        self.window.give_up(sent_at);
        self.ended(failure)
    }

    /// Follows the response to a request that was sent at `sent_at`.
    pub(crate) fn learn(
        &mut self,
        sent_at: Instant,
        advice: &Advice,
        longest_pause: Duration,
    ) -> Changes {
        let now = Instant::now();
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
        let mut pause = advice.pause;
        if advice.is_refused && !(pause.is_some() && is_announced) {
            let pace = self.pace.rate();
            let backoff = Backoff::refused(self.backoff, pace, &self.meter, sent_at, now);
            self.backoff = Some(backoff);
            pause = pause.or_else(|| Some(backoff.pause().max(advice.untimed)));
        } else {
            self.backoff = self.backoff.map(|backoff| backoff.admitted(sent_at, now));
        }
        let until = pause.map(|pause| now + pause.min(longest_pause));
        let is_paused = until > self.paused_until;
        self.paused_until = self.paused_until.max(until);
        let changes = self.set_pace(longest_pause);
        if !self.is_known {
            // At the pace before, they may have recovered within the round trip.
            self.bucket.take_at_least(now, self.sent_before, self.pace);
        }
        Changes { pause: until.filter(|_| is_paused).map(|until| until - now), ..changes }
    }

    /// Sets the slowest of the paces.
    fn set_pace(&mut self, longest_pause: Duration) -> Changes {
        let announced = self.announced.map(|pace| pace.at_least_one_in(longest_pause));
        let left = self.backoff.and_then(|it| self.fastest_pace.slowed_to(it.rate));
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
        self.bucket.change(Instant::now(), self.pace, pace);
        self.pace = pace;
        let (limiter, error) = match taken {
            Ok(limiter) => (limiter, None),
            // The fastest pace of the limiter, and the pace in this process: never faster than the pace.
            Err(error) => (Arc::clone(&self.fastest), Some(error)),
        };
        (self.limiter, self.has_uncounted) = (limiter, true);
        Changes { pause: None, pace: Some(pace.quota()), error }
    }
}
