//! Operational events, for metrics and alerts, and the queue to their observer, which is never called on a thread that serves
//! checks.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use limiter_core::{Clock, Error, ErrorKind};

use crate::{
    client::{breaker::Change, circuit_breaker::Watch, faults::CallError},
    counters::{Count, Tally},
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
    /// The [circuit breaker](crate::CircuitBreaker) of the connection opened: the server is not called until it replies
    /// to a probe. Checks return an error at once, or are decided in memory.
    BreakerOpened,
    /// The server replied, so the circuit breaker closed: it is called again. Or it has left the cluster.
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

    /// Returns the name of the policy under which it happened, or of the limiter of requests in flight. For the circuit breaker, whose changes
    /// are reported by each limiter on the connection, this is the limiter's own policy.
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

/// The stream of a limiter's events, from which the counters and the log of outages are made.
pub(crate) struct Events {
    /// The name of the limiter, or of its own policy.
    name: String,
    pub(crate) tally: Tally,
    observer: Option<Arc<ObserverQueue>>,
    outages: OutageLog,
}

impl Events {
    pub(crate) fn new(
        name: &str,
        observer: Option<Arc<ObserverQueue>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (tally, outages) = (Tally::default(), OutageLog::new(clock));
        Self { name: name.to_owned(), tally, observer, outages }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Counts an event, logs it if an outage begins by it, and queues it for the observer.
    #[cold]
    pub(crate) fn report(&self, kind: EventKind, policy: &str, node: Option<Arc<str>>) {
        let (_, count) = kind.name_and_count();
        count(&self.tally).add_many(kind.number());
        if let EventKind::StoreError(error) = &kind {
            let fault = CallError::of(error).map(CallError::fault);
            self.outages.begins((node.clone(), fault), policy, error);
        }
        if let Some(observer) = &self.observer
            && !observer.push(Event { kind, policy: policy.to_owned(), node })
        {
            self.tally.unobserved.add();
        }
    }

    /// Counts an operation that the circuit breaker has refused, and logs the outage, if that is not known.
    #[cold]
    pub(crate) fn refused(&self, error: &CallError, policy: &str, node: Option<Arc<str>>) {
        self.tally.short_circuited.add();
        self.outages.begins((node, Some(error.fault())), policy, error);
    }

    /// Notes that the store has executed an operation under a policy.
    pub(crate) fn replied(&self, policy: &str, node: impl FnOnce() -> Option<Arc<str>>) {
        self.outages.ends(policy, node);
    }
}

/// Reports changes of the circuit breaker, and logs why it is open, because calls that it refuses are not events.
impl Watch for Events {
    fn breaker(&self, change: Change, node: Option<&Arc<str>>, cause: Option<&CallError>) {
        match change {
            Change::Opened => self.report(EventKind::BreakerOpened, &self.name, node.cloned()),
            Change::Closed => self.report(EventKind::BreakerClosed, &self.name, node.cloned()),
            Change::StaysOpen => {}
        }
        match cause {
            Some(why) => {
                self.outages.begins((node.cloned(), Some(why.fault())), &self.name, why);
            }
            None => self.outages.ends(&self.name, || node.cloned()),
        }
    }

    fn forgets(&self, node: &Arc<str>) {
        self.outages.ends(&self.name, || Some(Arc::clone(node)));
    }
}

/// The function that receives events.
pub(crate) type Observer = dyn Fn(&Event) + Send + Sync;

/// How many events may wait for the observer. Others are counted as unobserved.
const MAX_WAITING: usize = 1_024;

/// An observer, and the events that wait for it.
///
/// The first event starts a task on a thread for blocking tasks, which ends when none waits. So events keep
/// their order, and an observer that blocks or panics delays no check.
pub(crate) struct ObserverQueue {
    observer: Arc<Observer>,
    spawn: Box<Spawn>,
    /// The events that wait for the task which calls the observer, `None` while no task runs.
    waiting: Mutex<Option<VecDeque<Event>>>,
}

/// Runs the task on a thread for work that may block.
type Spawn = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

impl ObserverQueue {
    pub(crate) fn new(observer: Arc<Observer>, spawn: Box<Spawn>) -> Arc<Self> {
        Arc::new(Self { observer, spawn, waiting: Mutex::new(None) })
    }

    /// Adds an event, and returns whether there was room for it.
    fn push(self: &Arc<Self>, event: Event) -> bool {
        let mut waiting = self.lock();
        let has_task = waiting.is_some();
        let events = waiting.get_or_insert_default();
        if events.len() >= MAX_WAITING {
            return false;
        }
        events.push_back(event);
        if !has_task {
            let queue = Arc::clone(self);
            (self.spawn)(Box::new(move || queue.call_observer()));
        }
        true
    }

    /// Passes the events that wait to the observer, one after the other.
    fn call_observer(&self) {
        while let Some(event) = self.next() {
            let call = AssertUnwindSafe(|| (self.observer)(&event));
            if catch_unwind(call).is_err() {
                tracing::error!("the observer of a limiter panicked");
            }
        }
    }

    fn next(&self) -> Option<Event> {
        let mut waiting = self.lock();
        let event = waiting.as_mut()?.pop_front();
        if event.is_none() {
            *waiting = None;
        }
        event
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Event>>> {
        // No operation under the lock can leave it half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
