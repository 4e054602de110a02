//! The one way to the store, and back.
//!
//! An operation becomes a [`request`](request::Request). The [`sender`] counts it as under way, asks the connection's
//! circuit breaker, and starts a task, which outlives the caller. Checks of one moment wait in the queue for the same
//! task. The task makes the script call within the deadline, once more if the server did not execute it. The outcome is
//! read (`outcomes`), reported to the circuit breaker and the events (`reports`), noted by the operation (counters,
//! cached denials), and given to the caller.

pub(crate) mod check;
pub(crate) mod deadline;
pub(crate) mod decide;
pub(crate) mod line;
mod loads;
mod outcomes;
pub(crate) mod peek;
pub(crate) mod queue;
pub(crate) mod refund;
mod reports;
pub(crate) mod request;
pub(crate) mod sender;
