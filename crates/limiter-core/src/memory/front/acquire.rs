//! Waiting for permits: as a future, or on a thread.

use std::{
    future::poll_fn,
    ops::ControlFlow::{self, Break, Continue},
    task::{Poll, Waker},
    time::Duration,
};

use super::limiter::MemoryLimiter;
use crate::{
    Clock, Cost, Reservation, Timer, Timestamp,
    memory::waiters::{Status, Ticket},
    sync::unpark_this_thread,
};

/// A request for permits with its place in the queue, which it gives up when it is dropped.
pub(crate) struct Acquire<C: Clock> {
    limiter: MemoryLimiter<C>,
    hash: u64,
    cost: Cost,
    /// By [`Clock::now`].
    deadline: Option<Timestamp>,
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
        let deadline = within.map(|within| limiter.clock().now().saturating_add(within));
        Self { limiter, hash, cost, deadline, ticket: None }
    }

    /// Returns the reservation, or when it is due, as the states count time.
    fn next(&mut self, waker: &Waker) -> ControlFlow<Reservation, Timestamp> {
        let Self { limiter, hash, cost, deadline, ticket } = self;
        let status = limiter.with_queue(*hash, |queue| {
            let states = limiter.states();
            let status = match *ticket {
                Some(ticket) => queue.poll(ticket, waker, states),
                None => {
                    let may_wait = || limiter.waiting().add();
                    queue.join(limiter.limits(), *cost, *deadline, waker, states, may_wait)
                }
            };
            if ticket.is_some() && matches!(status, Status::Done(_)) {
                limiter.waiting().subtract();
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

    /// Returns until when to sleep by the clock if not woken before, for a moment at which it is due.
    fn wake_at(&self, due: Timestamp) -> Option<Timestamp> {
        let due = (due < Timestamp::MAX).then(|| self.limiter.states().present().by_the_clock(due));
        due.into_iter().chain(self.deadline).min()
    }

    /// Waits as a future, which takes its place in the queue when it is first polled.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready, like any `async` block.
    pub(crate) async fn wait(mut self) -> Reservation
    where
        C: Timer,
    {
        // When it is due, and the timer for it. That moment by the clock would differ at each poll,
        // because two clocks are read, and make a new timer.
        let mut sleep: Option<(Timestamp, _)> = None;
        poll_fn(|cx| {
            let due = match self.next(cx.waker()) {
                Break(reservation) => return Poll::Ready(reservation),
                Continue(due) => due,
            };
            sleep = sleep.take().filter(|(until, _)| *until == due);
            if sleep.is_none() {
                let clock = self.limiter.clock();
                sleep = self.wake_at(due).map(|moment| (due, clock.sleep_until(moment)));
            }
            if let Some((_, timer)) = &mut sleep
                && timer.as_mut().poll(cx).is_ready()
            {
                // It is due by now, or the timer was early and another one sleeps for the rest.
                sleep = None;
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// Waits on this thread.
    pub(crate) fn block(mut self) -> Reservation {
        let waker = unpark_this_thread();
        loop {
            match self.next(&waker) {
                Break(reservation) => return reservation,
                Continue(due) => self.limiter.clock().park_until(self.wake_at(due)),
            }
        }
    }
}

impl<C: Clock> Drop for Acquire<C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let Self { limiter, hash, .. } = self;
            limiter.waiting().subtract();
            limiter
                .with_queue(*hash, |queue| queue.leave(ticket, limiter.limits(), limiter.states()));
        }
    }
}
