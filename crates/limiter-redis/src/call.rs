//! How the store is asked: batches, deadlines, the circuit breaker, cached denials and the fallback.

pub(crate) mod breaker;
pub(crate) mod deadline;
pub(crate) mod denials;
pub(crate) mod fallback;
pub(crate) mod faults;
pub(crate) mod operation;
mod queue;
pub(crate) mod request;
pub(crate) mod sender;
mod share;
mod sync;
pub(crate) mod under_way;
