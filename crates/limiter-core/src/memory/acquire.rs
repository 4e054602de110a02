//! Waiting for permits: as a future, or on a thread.

use alloc::boxed::Box;
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    handle::Handle,
    queue::{Ticket, Turn},
};
use crate::{Clock, Cost, Reservation, Timer, Timestamp, thread_waker::unpark_this_thread};

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A waiter, as a future. It takes its place in the queue when it is first polled.
#[must_use = "futures do nothing unless they are awaited"]
pub(super) struct Acquire<C: Timer> {
    waiter: Waiter<C>,
    /// Until when it sleeps, and the timer for it.
    sleep: Option<(Timestamp, Sleep)>,
}

/// A request for permits with its place in the queue, which it gives up when it is dropped.
pub(super) struct Waiter<C: Clock> {
    handle: Handle<C>,
    hash: u64,
    cost: Cost,
    deadline: Option<Timestamp>,
    /// `None` before it has joined the queue, and after it was served.
    ticket: Option<Ticket>,
}

/// What a waiter does next.
#[expect(clippy::large_enum_variant, reason = "it is moved once a wait")]
enum Next {
    Done(Reservation),
    /// Look again when woken, and at this moment if there is one.
    Wait(Option<Timestamp>),
}

impl<C: Timer> Acquire<C> {
    pub(super) const fn new(waiter: Waiter<C>) -> Self {
        Self { waiter, sleep: None }
    }
}

// Nothing in it is pinned: the timer is in a box.
impl<C: Timer> Unpin for Acquire<C> {}

impl<C: Timer> Future for Acquire<C> {
    type Output = Reservation;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reservation> {
        for _ in 0..2 {
            let due = match self.waiter.next(cx.waker()) {
                Next::Done(reservation) => return Poll::Ready(reservation),
                Next::Wait(due) => due,
            };
            let Some(due) = due else {
                self.sleep = None;
                return Poll::Pending;
            };
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != due) {
                self.sleep = Some((due, self.waiter.handle.clock().sleep_until(due)));
            }
            if let Some((_, sleep)) = &mut self.sleep {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // If the timer was early, another one sleeps for the rest.
                self.sleep = None;
            }
        }
        // A timer that is always early must not keep the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<C: Clock> Waiter<C> {
    pub(super) fn new(handle: Handle<C>, hash: u64, cost: Cost, within: Option<Duration>) -> Self {
        let deadline = within.map(|within| handle.now().saturating_add(within));
        Self { handle, hash, cost, deadline, ticket: None }
    }

    fn next(&mut self, waker: &Waker) -> Next {
        let turn = match self.ticket {
            Some(ticket) => self.handle.look(self.hash, ticket, waker),
            None => self.handle.join(self.hash, self.cost, self.deadline, waker),
        };
        match turn {
            Turn::Done(outcome) => {
                self.ticket = None;
                Next::Done(self.handle.reservation(self.hash, outcome, Duration::ZERO))
            }
            Turn::Wait(ticket, due) => {
                self.ticket = Some(ticket);
                Next::Wait(due.map(|due| self.handle.by_the_clock(due)))
            }
        }
    }

    /// Waits on this thread.
    pub(super) fn block(mut self) -> Reservation {
        let waker = unpark_this_thread();
        loop {
            match self.next(&waker) {
                Next::Done(reservation) => return reservation,
                Next::Wait(due) => self.handle.clock().park_until(due),
            }
        }
    }
}

impl<C: Clock> Drop for Waiter<C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.handle.leave(self.hash, ticket);
        }
    }
}
