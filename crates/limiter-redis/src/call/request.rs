//! What a caller asks of the store for one subject, on its way there and back, and how many such requests there are.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{AcqRel, Acquire},
    },
};

use bytes::Bytes;
use limiter_core::Timestamp;
use tokio::sync::{Notify, oneshot};

use super::deadline::Deadline;
use crate::{
    client::{
        ScriptCall,
        faults::{CallError, Outcome},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
    scripts::Plan,
};

/// One of the operations of a limiter.
pub(crate) trait Operation: Send + Sync + Sized + 'static {
    /// What the caller gets.
    type Output: Send + 'static;

    /// Whether an operation whose caller has left is sent.
    const OUTLIVES_CALLER: bool = false;

    /// Whether its reply is a decision, so that it ends a time of decisions without the store.
    const DECIDES: bool = false;

    /// Returns the call of a request, to which the keys are added. Only checks share a call: `all` are its requests.
    fn call(first: &Request<Self>, all: &[Request<Self>]) -> ScriptCall;

    /// Adds the keys of a request's states.
    fn add_keys(request: &Request<Self>, all: &mut Vec<Bytes>) {
        request.handle.plan.add_keys(&request.key, all);
    }

    /// Returns whether it has one caller, for whom its failure is counted. The callers of a lease count theirs themselves.
    fn is_of_caller(&self) -> bool {
        true
    }

    /// Returns what the numbers of a reply mean, `None` if it can't be one.
    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<Self::Output>;

    /// Brings what this process knows of the key up to date, before the caller gets the outcome of a call
    /// that was sent at `sent`.
    fn note(
        request: &Request<Self>,
        context: &Context,
        sent: Timestamp,
        outcome: &mut Outcome<Self::Output>,
    ) {
        let _ = (request, context, sent, outcome);
    }

    /// Returns what to report of a failure, besides the error.
    fn failure(error: &Arc<CallError>) -> Option<EventKind> {
        let _ = error;
        None
    }
}

/// An operation on a subject, until its caller has the outcome.
pub(crate) struct Request<O: Operation> {
    pub(crate) operation: O,
    /// The key of the subject's hash.
    pub(crate) key: Bytes,
    /// The limiter's.
    pub(crate) context: Arc<Context>,
    /// The policy of the operation.
    pub(crate) handle: Arc<Handle>,
    pub(crate) deadline: Deadline,
    /// Why the server did not execute it, if it was sent before.
    pub(crate) not_executed: Option<Arc<CallError>>,
    pub(crate) caller: oneshot::Sender<Outcome<O::Output>>,
    /// Whether its failure was reported: by its caller, who has waited in vain, or with its outcome.
    pub(crate) is_reported: Arc<AtomicBool>,
    /// Whether the outcome comes after its caller has reported that it waited in vain.
    pub(crate) is_late: bool,
    pub(crate) operating: Operating,
}

impl<O: Operation> Request<O> {
    /// Returns whether nobody needs the outcome of a request that was not sent.
    pub(crate) fn is_abandoned(&self) -> bool {
        !O::OUTLIVES_CALLER && self.caller.is_closed()
    }

    /// Notes that its outcome is here, and whether that is late. From now on its caller reports nothing.
    pub(crate) fn has_outcome(&mut self) {
        self.is_late = self.is_reported.swap(true, AcqRel);
    }

    /// Gives the caller the outcome, if it still waits.
    pub(crate) fn answer(self, outcome: Outcome<O::Output>) {
        let Self { caller, operating, .. } = self;
        drop(caller.send(outcome));
        drop(operating);
    }
}

/// Returns the call of requests that share one, with their keys.
pub(crate) fn call_of<O: Operation>(first: &Request<O>, all: &[Request<O>]) -> ScriptCall {
    let mut call = O::call(first, all);
    for request in all {
        O::add_keys(request, &mut call.keys);
    }
    call
}

/// How many operations of a limiter may be under way at a time. Others fail at once, so that a connection
/// that stalls does not fill the memory.
pub(crate) const MAX_UNDER_WAY: usize = 65_536;

/// Counts the operations under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    number: AtomicUsize,
    none: Notify,
}

/// One operation that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Operating(Arc<UnderWay>);

impl UnderWay {
    /// Counts one more operation, unless there are [`MAX_UNDER_WAY`].
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Operating> {
        let operating = Operating(Arc::clone(self));
        (self.number.fetch_add(1, AcqRel) < MAX_UNDER_WAY).then_some(operating)
    }

    pub(crate) fn number(&self) -> usize {
        self.number.load(Acquire)
    }

    /// Waits until no operation is under way.
    pub(crate) async fn ended(&self) {
        loop {
            let none = self.none.notified();
            if self.number() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Operating {
    fn drop(&mut self) {
        if self.0.number.fetch_sub(1, AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
