//! When one server is not called, because nothing came back from it for a while.

use std::{sync::PoisonError, time::Duration};

use limiter_core::Timestamp;

use super::sync::{
    AtomicBool, AtomicU64, Mutex, MutexGuard,
    Ordering::{Acquire, Relaxed, Release},
};

/// Lets calls pass to a server while it replies.
///
/// It opens when calls have failed for the time of silence, and no call had a reply meanwhile. While it is open, calls
/// are refused at once, but for a probe every [`Breaker::PROBE_EVERY`]. The first reply closes it, whatever call it is
/// for.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// Counts the replies. During normal operation, a call writes nothing else and takes no lock.
    replies: AtomicU64,
    /// Whether calls are refused. Changed under the lock.
    is_open: AtomicBool,
    inner: Mutex<Inner>,
    /// For how long calls fail before it opens.
    silence: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Inner {
    /// The failures in a row.
    failing: Option<Failing>,
    /// While it is open, when the next call may pass.
    probe_at: Option<Timestamp>,
}

/// Calls that failed while none had a reply.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// When the first of them was sent.
    since: Timestamp,
    /// How many replies had come then.
    replies: u64,
}

/// The permission for one call.
#[derive(Clone, Copy, Debug)]
#[must_use = "a call's outcome has to be noted"]
pub(crate) struct Pass {
    sent: Timestamp,
    /// How many replies had come before.
    replies: u64,
}

/// What the outcome of a call has changed, or has not. Opened and closed are returned to one caller each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a change is returned once"]
pub(crate) enum Change {
    Opened,
    /// A call has failed while it is open.
    StaysOpen,
    Closed,
}

impl Breaker {
    /// The time between two probes.
    pub(crate) const PROBE_EVERY: Duration = Duration::from_millis(100);

    /// Returns a closed breaker.
    pub(crate) fn new(silence: Duration) -> Self {
        let inner = Mutex::new(Inner::default());
        Self { replies: AtomicU64::new(0), is_open: AtomicBool::new(false), inner, silence }
    }

    /// Returns the permission for one call that is sent now, `None` if it must not be sent. If the breaker is open, the
    /// call is the probe.
    #[inline]
    pub(crate) fn pass(&self, now: Timestamp) -> Option<Pass> {
        let may_pass = !self.is_open.load(Acquire) || self.probe(now);
        may_pass.then(|| self.pass_always(now))
    }

    /// Returns the permission for a call that is sent also while the breaker is open. It does not count as a probe.
    pub(crate) fn pass_always(&self, now: Timestamp) -> Pass {
        Pass { sent: now, replies: self.replies.load(Relaxed) }
    }

    /// Returns whether a call that is made now would not be sent, not even as a probe.
    #[inline]
    pub(crate) fn refuses(&self, now: Timestamp) -> bool {
        self.is_open.load(Acquire) && self.lock().probe_at.is_some_and(|at| now < at)
    }

    /// Returns whether a call may pass, which then is the probe.
    #[cold]
    fn probe(&self, now: Timestamp) -> bool {
        let mut inner = self.lock();
        let Some(at) = &mut inner.probe_at else { return true };
        let is_due = now >= *at;
        if is_due {
            *at = now.saturating_add(Self::PROBE_EVERY);
        }
        is_due
    }

    /// Notes that the server has replied, even if with an error.
    #[inline]
    pub(crate) fn replied(&self) -> Option<Change> {
        self.replies.fetch_add(1, Relaxed);
        if self.is_open.load(Acquire) { self.close() } else { None }
    }

    #[cold]
    fn close(&self) -> Option<Change> {
        let mut inner = self.lock();
        let was_open = inner.probe_at.is_some();
        *inner = Inner::default();
        self.is_open.store(false, Release);
        was_open.then_some(Change::Closed)
    }

    /// Notes that a call failed.
    pub(crate) fn failed(&self, pass: Pass, now: Timestamp) -> Option<Change> {
        let mut inner = self.lock();
        if inner.probe_at.is_some() {
            return Some(Change::StaysOpen);
        }
        let replies = self.replies.load(Relaxed);
        // The server has replied to another call since this one was sent.
        if pass.replies != replies {
            return None;
        }
        let before = inner.failing.filter(|failing| failing.replies == replies);
        let since = before.map_or(pass.sent, |failing| failing.since.min(pass.sent));
        if now.saturating_since(since) < self.silence {
            inner.failing = Some(Failing { since, replies });
            return None;
        }
        inner.probe_at = Some(now.saturating_add(Self::PROBE_EVERY));
        self.is_open.store(true, Release);
        Some(Change::Opened)
    }

    /// Notes that a call failed that has no start to count from: it was not sent, or another server redirected it. It
    /// counts from now on.
    pub(crate) fn failed_now(&self, now: Timestamp) -> Option<Change> {
        self.failed(self.pass_always(now), now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
