//! A request for a permit in flight that may wait for it.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
    task::Waker,
};

use super::{
    queue::{Call, Ticket},
    shard::Shard,
};
use crate::{Clock, Entry, Timestamp, waiting::Wait};

/// A request with its place in the queue, which it gives up when it is dropped.
pub(super) struct Acquire<C> {
    pub(super) clock: Arc<C>,
    pub(super) shard: Arc<Shard>,
    pub(super) call: Call,
    /// By [`Clock::now`].
    pub(super) deadline: Option<Timestamp>,
    /// `None` before it has joined the queue, and after it has left.
    pub(super) ticket: Option<Ticket>,
}

impl<C: Clock> Wait for Acquire<C> {
    type Clock = C;
    type Answer = Entry;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn poll(&mut self, waker: &Waker) -> ControlFlow<Entry, Timestamp> {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= self.clock.now());
        let waker = (!is_late).then(|| waker.clone());
        let answer = self.shard.poll(self.call, &mut self.ticket, waker);
        // No clock says when it is due.
        answer.map_or(Continue(Timestamp::MAX), Break)
    }

    fn wake_at(&self, _due: Timestamp) -> Option<Timestamp> {
        self.deadline
    }
}

impl<C> Drop for Acquire<C> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            // Also gives back a permit that was taken for it.
            drop(self.shard.poll(self.call, &mut self.ticket, None));
        }
    }
}
