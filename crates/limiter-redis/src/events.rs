//! What a limiter tells of itself as it happens, for metrics and alerts.

use std::{fmt, sync::Arc};

use limiter_core::{Error, ErrorKind};

use crate::{
    breaker::Transition,
    counters::{Counters, Tally},
};

/// Something that an operator may want to count or be told of. Ordinary decisions are no events:
/// see [`Counters`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The circuit breaker has opened: the store fails or is slow, and is not asked any more until
    /// a probe succeeds. Checks get the fallback or an error, at once.
    BreakerOpened,
    /// A probe has succeeded, so the circuit breaker has closed: the store is asked again.
    BreakerClosed,
    /// A call to the store gave no decision. Its [`kind`](Error::kind) tells whether it may have
    /// charged.
    StoreError(&'a Error),
    /// A check was decided without the store.
    Fallback(FallbackKind),
}

/// How a check was decided without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackKind {
    /// It was admitted, uncounted.
    Allow,
    /// It was refused.
    Deny,
    /// A limiter in memory decided.
    Local,
}

/// Counts events, tells the observer, and logs what changes for all checks.
pub(crate) struct Events {
    /// Names the limiter in the log.
    policy: String,
    tally: Tally,
    observer: Option<Arc<Observer>>,
}

/// Called with each event, by the thread that meets with it: it must not block.
pub(crate) type Observer = dyn Fn(&Event<'_>) + Send + Sync;

impl Events {
    pub(crate) fn new(policy: &str) -> Self {
        Self { policy: policy.to_owned(), tally: Tally::default(), observer: None }
    }

    /// Replaces the observer.
    pub(crate) fn observed_by(self, observer: Arc<Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// What is counted without an event.
    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn counters(&self) -> Counters {
        self.tally.read()
    }

    /// Says what a call's result has changed for all, if anything, at the node that is named.
    pub(crate) fn transition(
        &self,
        transition: Option<Transition>,
        read_only: bool,
        node: impl FnOnce() -> Option<String>,
    ) {
        let Some(transition) = transition else { return };
        // Only what happens once an outage: no line a request.
        let (policy, node) = (&self.policy, node());
        let node = node.as_deref();
        let whose = if read_only { "looks" } else { "checks" };
        match transition {
            Transition::Opened => {
                tracing::warn!(
                    policy,
                    node,
                    "Redis fails or is slow: {whose} don't wait for it any more"
                );
                self.tell(&Event::BreakerOpened);
            }
            Transition::Closed => {
                tracing::warn!(policy, node, "{whose} are answered by Redis again");
                self.tell(&Event::BreakerClosed);
            }
        }
    }

    #[cold]
    pub(crate) fn tell(&self, event: &Event<'_>) {
        self.tally.count(event);
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

impl Event<'_> {
    /// Returns a name for it in metrics, in `snake_case`, which never changes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::BreakerOpened => "breaker_opened",
            Self::BreakerClosed => "breaker_closed",
            Self::StoreError(error) => match error.kind() {
                ErrorKind::Unavailable => "unavailable",
                ErrorKind::Undetermined => "undetermined",
                _ => "unexpected",
            },
            Self::Fallback(FallbackKind::Allow) => "fallback_allow",
            Self::Fallback(FallbackKind::Deny) => "fallback_deny",
            Self::Fallback(FallbackKind::Local) => "fallback_local",
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
