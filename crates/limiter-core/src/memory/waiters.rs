//! Requests that wait for permits, in the order in which they came.

mod forecast;
mod queue;
mod queues;

pub(crate) use forecast::Ticket;
pub(crate) use queue::{Queue, Status};
pub(crate) use queues::Queues;
