//! The pace of one host, and its pause.

use std::{sync::Arc, time::Duration};

use limiter_core::{Limiter as _, WaitingLimiter};
use tokio::time::Instant;

use crate::{
    backoff::{Backoff, Meter},
    pace::Pace,
};

/// The pace of one host, and its pause.
pub(crate) struct State {
    /// As the limiter was given. Its policy is the fastest pace.
    own: Arc<dyn WaitingLimiter>,
    own_pace: Pace,
    /// On the same states, by the present pace.
    limiter: Arc<dyn WaitingLimiter>,
    pace: Pace,
    paused_until: Option<Instant>,
    /// Whether a response has arrived, so that the host's limits are known if it announces any.
    has_answered: bool,
    announced: Option<Pace>,
    /// When the request was sent whose response announced it.
    announced_at: Option<Instant>,
    /// The rate that refusals without an explanation have left.
    backoff: Option<Backoff>,
    meter: Meter,
}

impl State {
    pub(crate) fn new(own: Arc<dyn WaitingLimiter>) -> Self {
        let pace = Pace::of_policy(own.policy());
        Self {
            limiter: Arc::clone(&own),
            own,
            own_pace: pace,
            pace,
            paused_until: None,
            has_answered: false,
            announced: None,
            announced_at: None,
            backoff: None,
            meter: Meter::new(Instant::now()),
        }
    }

    pub(crate) fn limiter(&self) -> Arc<dyn WaitingLimiter> {
        Arc::clone(&self.limiter)
    }

    pub(crate) const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Returns for how long no request may be sent.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    pub(crate) fn count(&mut self, now: Instant) {
        self.meter.count(now);
    }

    /// Follows a response, and returns whether the pace has changed or a pause has begun.
    pub(crate) fn learn(
        &mut self,
        sent_at: Instant,
        is_refused: bool,
        pause: Option<Duration>,
        announced: Option<Pace>,
        longest_pause: Duration,
    ) -> bool {
        let now = Instant::now();
        self.has_answered = true;
        let until = pause.map(|pause| now + pause.min(longest_pause));
        let is_paused = until > self.paused_until;
        self.paused_until = self.paused_until.max(until);
        // Responses may arrive out of order, and an old announcement must not replace a new one.
        let is_newer = self.announced_at.is_none_or(|latest| latest <= sent_at);
        let is_over = self
            .announced_at
            .is_some_and(|latest| sent_at.saturating_duration_since(latest) >= longest_pause);
        if announced.is_some() && is_newer || is_over {
            (self.announced, self.announced_at) = (announced, Some(sent_at));
        }
        // A refusal with a retry time, by a host that announces limits, is followed by the pause and
        // the announced pace alone.
        let is_unexplained = is_refused && (pause.is_none() || self.announced.is_none());
        self.backoff = if is_unexplained {
            let pace = self.pace.rate();
            Some(Backoff::refused(self.backoff, pace, &self.meter, sent_at, now))
        } else {
            self.backoff.map(|backoff| backoff.admitted(now))
        };
        self.set_pace(longest_pause) || is_paused
    }

    /// Sets the slowest of the paces, and returns whether it is another one.
    fn set_pace(&mut self, longest_pause: Duration) -> bool {
        let burst = self.own_pace.burst();
        let left = self.backoff.and_then(|backoff| Pace::computed(backoff.rate, burst));
        let others = [self.announced, left].into_iter().flatten();
        let others = others.map(|pace| pace.at_least_one_in(longest_pause));
        let pace = others.fold(self.own_pace, Pace::slower);
        if pace == self.pace {
            return false;
        }
        let limiter = if pace == self.own_pace {
            Some(self.own.clone())
        } else {
            let policy = pace.policy(self.own.policy().name());
            policy.and_then(|policy| self.own.waiting_with_policy(&policy).ok())
        };
        // A limiter in memory may have no room for another quota: then the former pace stays.
        let Some(limiter) = limiter else { return false };
        (self.limiter, self.pace) = (limiter, pace);
        true
    }
}
