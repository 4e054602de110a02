//! The one way to the store, and back.
//!
//! An operation of the limiter becomes a [`request`](request::Request). The [`sender`] counts it as under way,
//! asks the circuit breaker, and starts a task, which outlives the caller. Checks of one moment wait in
//! the queue for the same task. It sends one call by the [`ScriptClient`](crate::ScriptClient) within the
//! deadline, once more if the server did not execute it, and a second one to the script `policy` for what a limit's
//! own script left undecided. The reply goes back the same way: it is read by the
//! operation, reported to the circuit breaker and the events, noted by the operation (counters, cached
//! denials, the local fallback), and given to the caller.

pub(crate) mod breaker;
pub(crate) mod deadline;
pub(crate) mod detours;
pub(crate) mod joint;
mod loading;
pub(crate) mod operation;
mod outcomes;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod sender;
pub(crate) mod under_way;

use crate::sync;
