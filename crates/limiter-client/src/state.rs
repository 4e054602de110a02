//! The pace of one host, its pause, and what it has left.

use std::{sync::Arc, time::Duration};

use limiter_core::{Error, Limiter as _, Quota, WaitingLimiter};
use tokio::time::Instant;

use crate::{
    advice::Advice,
    backoff::{Backoff, Meter},
    pace::Pace,
};

/// The slowest pace that refusals without a time lead to: one request in ten minutes.
const SLOWEST_BACKOFF: Duration = Duration::from_secs(600);

/// Two resets that are at most so far apart are the same one: they have whole seconds, and requests take
/// different times.
const SAME_RESET: Duration = Duration::from_secs(2);

/// The pace of one host, its pause, and what it has left.
pub(crate) struct State {
    /// As the layer was given it.
    fastest: Arc<dyn WaitingLimiter>,
    fastest_pace: Pace,
    /// On the same states, by the present pace.
    limiter: Arc<dyn WaitingLimiter>,
    pace: Pace,
    /// The time from one request to the next, if `limiter` could not take the present pace.
    gap: Option<Duration>,
    paused_until: Option<Instant>,
    /// What remains until the reset, by the responses so far.
    allowance: Option<Remaining>,
    in_flight: u64,
    last_sent: Option<Instant>,
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

#[derive(Clone, Copy)]
struct Remaining {
    permits: u64,
    reset: Instant,
}

/// Why no request may be sent now.
pub(crate) enum Hold {
    For(Duration),
    /// As many requests are in flight as remain.
    UntilResponse,
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
            gap: None,
            paused_until: None,
            allowance: None,
            in_flight: 0,
            last_sent: None,
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

    /// Returns why no request may be sent now, if that is so.
    pub(crate) fn hold(&self, now: Instant) -> Option<Hold> {
        let gap = self.gap.zip(self.last_sent).map(|(gap, sent)| sent + gap);
        let mut until = self.paused_until.max(gap);
        if let Some(Remaining { permits, reset }) = self.allowance {
            // After the reset, one request finds out what remains then.
            let limit = if now < reset { permits } else { 1 };
            if limit <= self.in_flight && self.in_flight > 0 {
                return Some(Hold::UntilResponse);
            }
            until = until.max((limit == 0).then_some(reset));
        }
        let wait = until?.saturating_duration_since(now);
        (!wait.is_zero()).then_some(Hold::For(wait))
    }

    /// Counts a request that is sent now.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.meter.count(now);
        self.last_sent = Some(now);
        self.in_flight += 1;
    }

    /// Removes a request from those in flight.
    pub(crate) fn returned(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Counts a request whose response did not say what remains. The server may have counted it.
    pub(crate) fn spend_one(&mut self) {
        if let Some(left) = &mut self.allowance {
            left.permits = left.permits.saturating_sub(1);
        }
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
        let until = advice.pause.map(|pause| now + pause.min(longest_pause));
        let is_paused = until > self.paused_until;
        self.paused_until = self.paused_until.max(until);
        if advice.allowance.is_none() {
            self.spend_one();
        }
        let left = advice.allowance.map(|it| Remaining {
            permits: it.remaining,
            reset: now + it.reset.min(longest_pause),
        });
        self.allowance = Remaining::latest(self.allowance.filter(|left| now < left.reset), left);
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
        let is_announced = self.announced.is_some() || self.allowance.is_some();
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
        self.pace = pace;
        let (limiter, gap, error) = match taken {
            Ok(limiter) => (limiter, None, None),
            // The fastest pace of the limiter, and a gap in this process: never faster than the pace.
            Err(error) => (Arc::clone(&self.fastest), Some(pace.interval()), Some(error)),
        };
        (self.limiter, self.gap) = (limiter, gap);
        Changes { pause: None, pace: Some(pace.quota()), error }
    }
}

impl Remaining {
    /// Returns what is left by the former responses and a new one, which may be older than those.
    fn latest(former: Option<Self>, new: Option<Self>) -> Option<Self> {
        match (former, new) {
            (Some(former), Some(new)) => {
                let is_other_window = new.reset > former.reset + SAME_RESET;
                Some(if is_other_window || new.permits < former.permits { new } else { former })
            }
            (former, new) => new.or(former),
        }
    }
}
