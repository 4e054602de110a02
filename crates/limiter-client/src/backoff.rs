//! A rate for servers that refuse and do not say why: additive increase, multiplicative decrease.

use std::time::Duration;

use tokio::time::Instant;

use crate::pace::PER_SECOND;

/// How long the rate stays before it is raised.
const INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause after a refusal that names no time, of refusals in succession.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// The requests of the present second, and of the one before.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    count: u32,
    /// `None` if nothing was sent in it.
    before: Option<u32>,
}

impl Meter {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { since: now, count: 0, before: None }
    }

    pub(crate) fn count(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        if seconds > 0 {
            self.before = (seconds == 1).then_some(self.count);
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
    }

    /// Returns about how many requests were sent in a second, if requests were sent for that long.
    fn rate(&self) -> Option<u64> {
        self.before.map(|before| u64::from(self.count.max(before)) * PER_SECOND)
    }
}

/// A rate that a refusal cuts to three quarters, and that each second with an admission raises by a
/// twentieth of the rate that was refused. In billionths of a request a second.
///
/// Of refusals in succession, only the first cuts it, because a server that is down admits no rate. The others double the
/// pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) rate: u64,
    step: u64,
    cut_at: Instant,
    raised_at: Instant,
    /// How many refusals there were since the last admission.
    refusals: u32,
}

impl Backoff {
    /// Returns the rate after the refusal of a request that was sent at `sent_at`, while the pace was
    /// `pace`. It is the former one if that request was sent at the rate that has been cut since.
    pub(crate) fn refused(
        former: Option<Self>,
        pace: u64,
        meter: &Meter,
        sent_at: Instant,
        now: Instant,
    ) -> Self {
        if let Some(former) = former.filter(|former| sent_at <= former.cut_at) {
            return former;
        }
        if let Some(former) = former.filter(|former| former.refusals > 0) {
            return Self { cut_at: now, refusals: former.refusals.saturating_add(1), ..former };
        }
        let refused = meter.rate().map_or(pace, |sent| pace.min(sent));
        // At least 1, because a rate of zero counts as none, and a step of zero never raises it.
        let (rate, step) = ((refused / 4 * 3).max(1), (refused / 20).max(1));
        Self { rate, step, cut_at: now, raised_at: now, refusals: 1 }
    }

    /// Returns for how long no request may be sent after a refusal: a second, and twice as long for each further one in
    /// succession.
    pub(crate) fn pause(&self) -> Duration {
        let doubled = self.refusals.saturating_sub(1).min(LONGEST_PAUSE.as_secs().ilog2());
        Duration::from_secs(1 << doubled)
    }

    /// Returns the rate after the admission of a request that was sent at `sent_at`.
    pub(crate) fn admitted(self, sent_at: Instant, now: Instant) -> Self {
        let refusals = if sent_at > self.cut_at { 0 } else { self.refusals };
        let seconds = now.saturating_duration_since(self.raised_at).as_secs();
        if seconds < INTERVAL.as_secs() {
            return Self { refusals, ..self };
        }
        // After a silence by one step, because it proves nothing.
        Self { rate: self.rate.saturating_add(self.step), raised_at: now, refusals, ..self }
    }
}
