//! A request for permits that may wait for them.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    task::Waker,
    time::Duration,
};

use super::{
    limiter::MemoryLimiter,
    waiters::{Status, Ticket},
};
use crate::{Clock, Cost, Reservation, Timestamp, waiting::Wait};

/// A request for permits with its place in the queue, which it gives up when it is dropped.
pub(crate) struct Acquire<C: Clock> {
    limiter: MemoryLimiter<C>,
    hash: u64,
    cost: Cost,
    /// By [`Clock::now`].
    deadline: Option<Timestamp>,
    /// Whether it is served when it is first polled or not at all. The clock may have moved on until then.
    is_immediate: bool,
    /// `None` before it has joined the queue, and after it was served.
    ticket: Option<Ticket>,
}

impl<C: Clock> Acquire<C> {
    pub(crate) fn new(
        limiter: MemoryLimiter<C>,
        hash: u64,
        cost: Cost,
        within: Option<Duration>,
    ) -> Self {
        let deadline = within.map(|within| limiter.shared.clock.now().saturating_add(within));
        let is_immediate = within.is_some_and(|within| within.is_zero());
        Self { limiter, hash, cost, deadline, is_immediate, ticket: None }
    }
}

impl<C: Clock> Wait for Acquire<C> {
    type Clock = C;
    type Answer = Reservation;

    fn clock(&self) -> &C {
        &self.limiter.shared.clock
    }

    fn poll(&mut self, waker: &Waker) -> ControlFlow<Reservation, Timestamp> {
        let Self { limiter, hash, cost, deadline, is_immediate, ticket } = self;
        let status = limiter.with_queue(*hash, |queue| {
            let tables = limiter.tables();
            let status = match *ticket {
                Some(ticket) => queue.poll(ticket, waker, tables),
                None => {
                    let (limits, may_wait) = (&limiter.limits, || limiter.shared.waiting.add());
                    let refusal = deadline
                        .filter(|_| !*is_immediate)
                        .and_then(|deadline| queue.refusal_after(deadline, limits, *cost, tables));
                    match refusal {
                        Some(refusal) => Status::Done(refusal),
                        None => queue.join(limits, *cost, *deadline, waker, tables, may_wait),
                    }
                }
            };
            if ticket.is_some() && matches!(status, Status::Done(_)) {
                limiter.shared.waiting.subtract();
            }
            // Before other waiters are woken, which may panic.
            *ticket = match status {
                Status::Done(_) => None,
                Status::Waiting(place, _) => Some(place),
            };
            status
        });
        match status {
            Status::Done(outcome) => Break(limiter.reservation(*hash, outcome, cost.get())),
            Status::Waiting(_, due) => Continue(due),
        }
    }

    fn wake_at(&self, due: Timestamp) -> Option<Timestamp> {
        let due = (due < Timestamp::MAX).then(|| self.limiter.tables().present().by_the_clock(due));
        due.into_iter().chain(self.deadline).min()
    }
}

impl<C: Clock> Drop for Acquire<C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let Self { limiter, hash, .. } = self;
            limiter.shared.waiting.subtract();
            limiter
                .with_queue(*hash, |queue| queue.leave(ticket, &limiter.limits, limiter.tables()));
        }
    }
}
