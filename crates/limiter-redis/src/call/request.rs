//! An operation on its way to the store and back.

use std::sync::{
    Arc,
    atomic::{
        AtomicBool,
        Ordering::{AcqRel, Acquire, Release},
    },
};

use tokio::sync::oneshot;

use super::{deadline::Deadline, operation::Operation, under_way::Operating};
use crate::client::faults::{CallError, Outcome};

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

/// How far a request is, as its caller and the task that sends it know it.
#[derive(Default)]
pub(crate) struct Progress {
    is_sent: AtomicBool,
    /// Whether the outcome is here, or the caller has waited in vain.
    is_over: AtomicBool,
}

impl Progress {
    /// Notes that it is sent.
    pub(super) fn is_sent(&self) {
        self.is_sent.store(true, Release);
    }

    pub(super) fn was_sent(&self) -> bool {
        self.is_sent.load(Acquire)
    }

    /// Notes that its failure is reported from now on, if it failed, and returns whether that is so already.
    pub(super) fn ends(&self) -> bool {
        self.is_over.swap(true, AcqRel)
    }
}
