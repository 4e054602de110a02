//! What a caller asks of the store.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::Timestamp;

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

    /// Returns for how long it may take.
    fn within(&self, settings: &Settings) -> Duration {
        settings.deadline
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
