//! A request for a permit.

use std::sync::{Arc, atomic::AtomicBool};

use bytes::Bytes;
use limiter_core::InFlightPermit;
use tokio::sync::oneshot;

use super::full::Ticket;
use crate::{
    call::{deadline::Deadline, request::Operating},
    client::faults::Outcome,
};

/// A request whose caller waits, until it has the outcome.
pub(crate) struct Asked<T> {
    pub(super) deadline: Deadline,
    pub(super) caller: oneshot::Sender<Outcome<T>>,
    /// Whether its failure was reported: by its caller, who has waited in vain, or with its outcome.
    pub(super) is_reported: Arc<AtomicBool>,
    pub(super) operating: Operating,
}

impl<T> Asked<T> {
    pub(super) fn has_left(&self) -> bool {
        self.caller.is_closed()
    }
}

/// A request for a permit, which waits to be sent.
pub(crate) struct Enter {
    pub(super) key: Bytes,
    /// Part of the permit's id.
    pub(super) number: u64,
    pub(super) limit: u32,
    pub(super) ticket: Ticket,
    pub(super) asked: Asked<Entered>,
}

/// How many permits are held, and one that was taken.
pub(crate) type Entered = (u32, Option<Box<dyn Taken>>);

/// A permit that the store has counted, and its caller does not have yet. Dropping it gives it back.
pub(crate) trait Taken: Send {
    /// Returns the permit for its caller, or `None` if the reply came so late that it is lost.
    fn used(self: Box<Self>) -> Option<InFlightPermit>;
}
