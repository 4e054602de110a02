//! An operation on its way to the store and back.

use std::sync::{
    Arc,
    atomic::{
        AtomicU8,
        Ordering::{AcqRel, Acquire},
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
