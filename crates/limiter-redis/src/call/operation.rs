//! What a caller asks of the store, and the progress of its request.

use std::sync::{
    Arc,
    atomic::{
        AtomicU8,
        Ordering::{AcqRel, Acquire},
    },
};

use bytes::Bytes;
use limiter_core::Timestamp;
use tokio::sync::oneshot;

use super::{deadline::Deadline, queue::Operating};
use crate::{
    client::{
        ScriptCall, ScriptReply,
        faults::{CallError, Outcome},
    },
    context::Settings,
    events::{EventKind, Events},
};

/// An operation of a limiter.
pub(crate) trait Operation: Send + Sized + 'static {
    /// What the caller gets.
    type Output: Send + 'static;

    /// Whether an operation whose caller has left is sent.
    const OUTLIVES_CALLER: bool = false;

    /// Whether it is sent even while the circuit breaker refuses calls.
    const PASSES_BREAKER: bool = false;

    /// Returns the key by which a cluster routes it.
    fn key(&self) -> &Bytes;

    /// Returns the limiter's events, and the name of the policy under which to report.
    fn events(&self) -> (&Arc<Events>, &str);

    /// Returns the time by which it must have ended, if it is asked for now.
    fn deadline(&self, settings: &Settings, now: Timestamp) -> Deadline {
        Deadline::after(settings.deadline, now)
    }

    /// Returns the call to which it, and others that share the call, are added.
    fn begin(&self) -> ScriptCall;

    /// Adds its keys and arguments to a call.
    fn add(&self, call: &mut ScriptCall);

    /// Returns whether it has one caller, for whom its failure is counted. The callers of a lease count theirs themselves.
    fn is_of_caller(&self) -> bool {
        true
    }

    /// Reads the reply to a call that was sent at `sent`. Returns `None` if no script of this library replies so. A text,
    /// which is the error of a command, was read before.
    fn read(&self, reply: &ScriptReply, sent: Timestamp) -> Option<Self::Output>;

    /// Brings what this process knows of the key up to date, before the caller gets the outcome. It `is_late` if the
    /// caller has reported that it waited in vain.
    fn note(&self, outcome: &Outcome<Self::Output>, sent: Timestamp, is_late: bool) {
        let _ = (outcome, sent, is_late);
    }

    /// Returns what to report of a failure, besides the error.
    fn failure(error: &Arc<CallError>) -> Option<EventKind> {
        let _ = error;
        None
    }
}

/// An operation that shares calls with others of its moment.
pub(crate) trait Batched: Operation {
    /// Operations of one kind share a call.
    type Kind: Ord + Send;

    fn kind(&self) -> Self::Kind;

    /// Returns with how many others like this one it may share a call, itself included.
    fn max_batch(&self) -> usize;
}

/// An operation until its caller has the outcome.
pub(crate) struct Request<O: Operation> {
    pub(super) operation: O,
    pub(super) deadline: Deadline,
    /// Why the server did not execute it, if it was sent before.
    pub(super) not_executed: Option<Arc<CallError>>,
    pub(super) caller: oneshot::Sender<Outcome<O::Output>>,
    pub(super) progress: Arc<Progress>,
    pub(super) operating: Operating,
}

/// How far a request is, as its caller and the task that sends it know it: what came first, that it is sent or that its
/// caller has waited in vain.
#[derive(Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    pub(crate) const WAITS: u8 = 0;
    const IS_SENT: u8 = 1;
    /// The outcome is here, or the caller has left.
    const IS_OVER: u8 = 2;

    /// Notes that it is sent, and returns whether it may be: not after its caller has left.
    pub(crate) fn begins(&self) -> bool {
        let sent = |it| (it != Self::IS_OVER).then_some(Self::IS_SENT);
        self.0.fetch_update(AcqRel, Acquire, sent).is_ok()
    }

    /// Notes that the outcome is here, or that the caller leaves. Returns how far it was: a failure is reported by who ends
    /// it first.
    pub(crate) fn ends(&self) -> u8 {
        self.0.swap(Self::IS_OVER, AcqRel)
    }

    pub(super) const fn is_over(state: u8) -> bool {
        state == Self::IS_OVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its caller has received the error `Unavailable`, after which nothing may be charged for it.
    #[test]
    fn a_request_whose_caller_has_left_is_not_sent() {
        let progress = Progress::default();
        assert_eq!(progress.ends(), Progress::WAITS);
        assert!(!progress.begins());
        let sent_again = Progress::default();
        assert!(sent_again.begins() && sent_again.begins());
        assert_ne!(sent_again.ends(), Progress::WAITS);
    }
}
