//! What remains until a reset, and the requests in flight that count against it.

use std::time::Duration;

use tokio::time::Instant;

use crate::advice::Advice;

/// For how long a request that finds out what remains after a reset is alone, unless its response or error arrives
/// before.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Two resets that are at most so far apart are the same one: they have whole seconds, and requests take
/// different times.
const SAME_RESET: Duration = Duration::from_secs(2);

/// What remains until a reset, and the requests in flight that count against it.
///
/// Requests that were sent before the last reset don't count: their responses may take any time, and say
/// nothing of what remains after it.
#[derive(Default)]
pub(crate) struct Window {
    left: Left,
    /// The last reset that has passed.
    began: Option<Instant>,
    /// How many requests are in flight that were sent since then.
    in_flight: u64,
    last_sent: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
enum Left {
    /// The host announces nothing of the kind.
    #[default]
    Unknown,
    Known(Remaining),
    /// The reset has passed. One request finds out what remains now.
    AfterReset,
}

#[derive(Clone, Copy)]
struct Remaining {
    permits: u64,
    reset: Instant,
}

/// Why no request may be sent now.
pub(crate) enum Hold {
    For(Duration),
    /// Until a response arrives, and for this time at most.
    UntilResponse(Duration),
}

impl Hold {
    /// Returns the hold, which ends after `most` at the latest.
    pub(crate) fn at_most(self, most: Duration) -> Option<Self> {
        (!most.is_zero()).then(|| match self {
            Self::For(wait) => Self::For(wait.min(most)),
            Self::UntilResponse(wait) => Self::UntilResponse(wait.min(most)),
        })
    }
}

impl Window {
    /// Returns why no request may be sent now, if that is so.
    pub(crate) fn hold(&mut self, now: Instant) -> Option<Hold> {
        self.pass_reset(now);
        let (limit, until) = match (self.left, self.last_sent) {
            (Left::Known(left), _) => (left.permits, left.reset),
            (Left::AfterReset, Some(sent)) => (1, sent + PROBE_TIMEOUT),
            (Left::AfterReset, None) | (Left::Unknown, _) => return None,
        };
        let wait = until.saturating_duration_since(now);
        if self.in_flight < limit || wait.is_zero() {
            return None;
        }
        Some(if self.in_flight == 0 { Hold::For(wait) } else { Hold::UntilResponse(wait) })
    }

    /// Counts a request that is sent now. [`Self::hold`] has returned `None` at this time.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
        self.in_flight += 1;
    }

    /// Removes a request from those in flight.
    pub(crate) fn returned(&mut self, sent_at: Instant, now: Instant) {
        self.pass_reset(now);
        if self.has(sent_at) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
    }

    /// Counts a request whose response did not say what remains. The server may have counted it.
    pub(crate) fn spend_one(&mut self, sent_at: Instant) {
        if self.has(sent_at)
            && let Left::Known(left) = &mut self.left
        {
            left.permits = left.permits.saturating_sub(1);
        }
    }

    /// Follows a response from a cache, or an error: neither says what remains after a reset, and other requests
    /// do not wait to find that out.
    pub(crate) fn give_up(&mut self, sent_at: Instant) {
        if self.has(sent_at) && matches!(self.left, Left::AfterReset) {
            self.left = Left::Unknown;
        }
    }

    /// Follows the response to a request that was sent at `sent_at`.
    pub(crate) fn learn(
        &mut self,
        sent_at: Instant,
        now: Instant,
        advice: &Advice,
        longest_pause: Duration,
    ) {
        self.pass_reset(now);
        if !self.has(sent_at) {
            return;
        }
        let new = advice.allowance.map(|it| Remaining {
            permits: it.remaining,
            reset: now + it.reset.min(longest_pause),
        });
        self.left = match (self.left, new) {
            (Left::Known(former), Some(new)) => Left::Known(former.updated(new)),
            (Left::Known(_), None) => {
                self.spend_one(sent_at);
                self.left
            }
            (_, Some(new)) => Left::Known(new),
            (_, None) => Left::Unknown,
        };
    }

    /// Returns when the last request was sent.
    pub(crate) const fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// Returns whether the host announces what remains.
    pub(crate) const fn is_announced(&self) -> bool {
        !matches!(self.left, Left::Unknown)
    }

    fn pass_reset(&mut self, now: Instant) {
        if let Left::Known(left) = self.left
            && left.reset <= now
        {
            (self.left, self.began, self.in_flight) = (Left::AfterReset, Some(left.reset), 0);
        }
    }

    /// Returns whether a request was sent since the last reset.
    fn has(&self, sent_at: Instant) -> bool {
        self.began <= Some(sent_at)
    }
}

impl Remaining {
    /// Returns what is left after another response, which may be older.
    fn updated(self, new: Self) -> Self {
        let is_other_window = new.reset > self.reset + SAME_RESET;
        if is_other_window || new.permits < self.permits { new } else { self }
    }
}
