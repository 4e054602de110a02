//! Requests that wait for permits, in the order in which they came.

mod queue;
mod queues;

pub(crate) use queue::{Queue, Status, Ticket};
pub(crate) use queues::Queues;
