//! What a caller asks of the store for one subject, on its way there and back.

use std::{mem, sync::Arc};

use limiter_core::Timestamp;
use tokio::sync::oneshot;

use super::{deadline::Deadline, under_way::Operating};
use crate::{
    client::{
        ScriptCall,
        faults::{CallError, Outcome},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
    keys::Keys,
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

    /// Returns one call for all requests, to which the keys are added; `None` if they can't share one.
    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall>;

    /// Returns the keys of its limits if they are not those of the request's subject alone. The first one is the
    /// request's.
    fn own_keys(&self) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// Returns whether its call has the keys of leases behind those of the states.
    fn has_lease_keys(&self) -> bool {
        false
    }

    /// Returns whether its script may leave it to the script `policy`.
    fn may_be_undecided(&self) -> bool {
        false
    }

    /// Notes that its script did so.
    fn is_undecided(&mut self, context: &Context) {
        let _ = context;
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
    /// The key of the policy's first limit.
    pub(crate) key: Vec<u8>,
    /// The policy of the operation.
    pub(crate) handle: Arc<Handle>,
    pub(crate) deadline: Deadline,
    pub(crate) caller: oneshot::Sender<Outcome<O::Output>>,
    pub(crate) operating: Operating,
}

impl<O: Operation> Request<O> {
    /// Returns whether nobody needs the outcome of a request that was not sent.
    pub(crate) fn is_abandoned(&self) -> bool {
        !O::OUTLIVES_CALLER && self.caller.is_closed()
    }

    /// Returns whether the caller has reported that it waited in vain.
    pub(crate) fn has_timed_out(&self, now: Timestamp) -> bool {
        self.caller.is_closed() && self.deadline.caller_timed_out(now)
    }

    /// Gives the caller the outcome, if it still waits.
    pub(crate) fn answer(self, outcome: Outcome<O::Output>) {
        let Self { caller, operating, .. } = self;
        drop(caller.send(outcome));
        drop(operating);
    }
}

/// Takes the keys of the requests' limits, and adds those of leases if the script needs them.
pub(crate) fn take_keys<O: Operation>(requests: &mut [Request<O>], keys: &Keys) -> Vec<Vec<u8>> {
    let has_leases = requests.first().is_some_and(|first| first.operation.has_lease_keys());
    let number = requests.len() * keys.number() * if has_leases { 2 } else { 1 };
    let mut all = Vec::with_capacity(number);
    for request in requests {
        if let Some(own) = request.operation.own_keys() {
            all.extend(own);
            continue;
        }
        let others: Vec<_> = keys.others(&request.key).collect();
        all.push(mem::take(&mut request.key));
        all.extend(others);
    }
    if has_leases {
        let leases: Vec<_> = all.iter().map(|key| Keys::of_leases(key)).collect();
        all.extend(leases);
    }
    all
}
