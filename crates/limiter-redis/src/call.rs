//! The one way to the store, and back.
//!
//! An [`operation`](operation::Operation) becomes a request. The [`sender`] asks the connection's circuit breaker,
//! counts the request as under way, and starts a task, which outlives the caller. Operations of one moment that can share a call wait in
//! a [`queue`] for the same task. The task makes the script call within the [`deadline`], once more if the server did not
//! execute it. The outcome is read, reported to the circuit breaker and the events, noted by the operation (counters,
//! cached denials), and given to the caller.

pub(crate) mod check;
pub(crate) mod deadline;
pub(crate) mod list;
pub(crate) mod operation;
pub(crate) mod queue;
pub(crate) mod refund;
pub(crate) mod reply;
mod reports;
pub(crate) mod sender;
