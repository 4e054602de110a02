//! Operational events, for metrics and alerts.

use std::sync::Arc;

use limiter_core::{Error, ErrorKind};

use crate::{
    counters::{Count, Tally},
    observer::ObserverQueue,
    outage_log::OutageLog,
};

/// An operational event of a limiter. Decisions of the store are not events: see [`Counters`](crate::Counters).
#[derive(Debug)]
pub struct Event {
    kind: EventKind,
    policy: String,
    node: Option<Arc<str>>,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The circuit breaker opened: the server fails or replies too late, and is not called until a probe
    /// succeeds. Checks return an error at once, or are decided in memory.
    BreakerOpened,
    /// A probe succeeded, so the circuit breaker closed: the server is called again.
    BreakerClosed,
    /// A call to the store returned no decision. The error's [`kind`](Error::kind) says whether it may
    /// have charged, and [`CallError::of`](crate::CallError::of) returns the fault.
    StoreError(Error),
    /// A refund was not confirmed by the store, so its permits may stay charged.
    RefundFailed(Error),
    /// A request in flight was decided by this process's [share](crate::RedisInFlightBuilder::local_share), without the
    /// store.
    DecidedLocally,
    /// A permit of a request in flight was lost: it does not count any more, although the request holds it.
    PermitLost,
    /// So many permits were not in the store when they were renewed, and were added again: the store has lost them, or
    /// could not be reached for a while.
    PermitsRestored(u64),
    /// So many permits of requests that have ended were not given back, so they count until they expire.
    ReleaseFailed(u64, Error),
}

impl Event {
    /// Returns what happened.
    #[must_use]
    pub const fn kind(&self) -> &EventKind {
        &self.kind
    }

    /// Returns the name of the policy under which it happened, or of the limiter of requests in flight. For the circuit breaker, which all
    /// handles of a limiter share, this is the limiter's own policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the address of the cluster node at which it happened, such as `10.0.0.1:6379`, or `None`
    /// if there is only one server.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Returns a name for metrics, in `snake_case`, which never changes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.name_and_count().0
    }
}

impl EventKind {
    /// Returns the name for metrics and the counter.
    fn name_and_count(&self) -> (&'static str, fn(&Tally) -> &Count) {
        match self {
            Self::BreakerOpened => ("breaker_opened", |tally| &tally.breaker_opened),
            Self::BreakerClosed => ("breaker_closed", |tally| &tally.breaker_closed),
            Self::StoreError(error) => match error.kind() {
                ErrorKind::Unavailable => ("unavailable", |tally| &tally.unavailable),
                ErrorKind::Undetermined => ("undetermined", |tally| &tally.undetermined),
                _ => ("unexpected", |tally| &tally.unexpected),
            },
            Self::RefundFailed(_) => ("refund_failed", |tally| &tally.refunds_failed),
            Self::DecidedLocally => ("decided_locally", |tally| &tally.decided_locally),
            Self::PermitLost => ("permit_lost", |tally| &tally.permits_lost),
            Self::PermitsRestored(_) => ("permits_restored", |tally| &tally.permits_restored),
            Self::ReleaseFailed(..) => ("release_failed", |tally| &tally.releases_failed),
        }
    }
}

impl EventKind {
    /// Returns how much the counter grows.
    const fn number(&self) -> u64 {
        match self {
            Self::PermitsRestored(number) | Self::ReleaseFailed(number, _) => *number,
            _ => 1,
        }
    }
}

/// What the result of a call has changed of a circuit breaker. Each change is returned to one caller only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a transition is returned once"]
pub(crate) enum Transition {
    Opened,
    Closed,
}

/// Counts events, and reports them to the observer.
pub(crate) struct Events {
    /// The name of the limiter's own policy.
    policy: String,
    pub(crate) tally: Tally,
    observer: Option<Arc<ObserverQueue<Event>>>,
    /// Logs open circuit breakers, unless each cause by which a check fails is logged.
    breaker_log: Option<Arc<OutageLog>>,
}

impl Events {
    pub(crate) fn new(
        policy: &str,
        observer: Option<Arc<ObserverQueue<Event>>>,
        breaker_log: Option<Arc<OutageLog>>,
    ) -> Self {
        Self { policy: policy.to_owned(), tally: Tally::default(), observer, breaker_log }
    }

    /// Reports a transition of a circuit breaker, and logs it.
    pub(crate) fn transition(&self, transition: Transition, node: Option<Arc<str>>, cause: &str) {
        match transition {
            Transition::Opened => {
                self.report(EventKind::BreakerOpened, &self.policy, || node.clone());
                self.log_outage(node, cause);
            }
            Transition::Closed => {
                self.report(EventKind::BreakerClosed, &self.policy, || node.clone());
                if let Some(log) = &self.breaker_log {
                    log.ends(&self.policy, || node);
                }
            }
        }
    }

    /// Logs that a circuit breaker is open. To be called again while that lasts.
    pub(crate) fn log_outage(&self, node: Option<Arc<str>>, cause: &str) {
        if let Some(log) = &self.breaker_log {
            log.breaker_is_open(&self.policy, node, cause);
        }
    }

    /// Counts an event, and queues it for the observer.
    #[cold]
    pub(crate) fn report(
        &self,
        kind: EventKind,
        policy: &str,
        node: impl FnOnce() -> Option<Arc<str>>,
    ) {
        let (_, count) = kind.name_and_count();
        count(&self.tally).add_many(kind.number());
        if let Some(observer) = &self.observer
            && !observer.push(Event { kind, policy: policy.to_owned(), node: node() })
        {
            self.tally.unobserved.add();
        }
    }
}
