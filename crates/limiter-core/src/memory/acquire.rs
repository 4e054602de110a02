//! Waiting for permits: as a future, or on a thread.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    engines::{Keyed, Shape, Unkeyed},
    handle::Handle,
    place::{Turn, Waiter},
    queue::Ticket,
};
use crate::{Clock, Cost, Reservation, Sleep, Timer, Timestamp, thread_waker::unpark_this_thread};

/// Permits that are on their way: `acquire` and `acquire_within` return it.
///
/// It takes its place in the queue when it is first polled. Dropped before it is ready, it gives
/// its place back, and whatever may have been taken for it meanwhile. One that is kept without
/// being polled holds up those behind it, as with any fair queue.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquire<C: Timer>(Inner<C>);

enum Inner<C: Timer> {
    Keyed(Asleep<Keyed, C>),
    Unkeyed(Asleep<Unkeyed, C>),
}

/// One who waits, and sleeps until its turn.
struct Asleep<K: Shape, C: Clock> {
    waiting: Waiting<K, C>,
    /// Until when, and the timer for it.
    sleep: Option<(Timestamp, Sleep)>,
}

/// One who waits, with its place in the queue.
pub(super) struct Waiting<K: Shape, C: Clock> {
    handle: Handle<K, C>,
    hash: u64,
    cost: Cost,
    deadline: Option<Timestamp>,
    /// `None` before the first turn and after the last.
    ticket: Option<Ticket>,
}

impl<C: Timer> Acquire<C> {
    pub(super) const fn keyed(waiting: Waiting<Keyed, C>) -> Self {
        Self(Inner::Keyed(Asleep { waiting, sleep: None }))
    }

    pub(super) const fn unkeyed(waiting: Waiting<Unkeyed, C>) -> Self {
        Self(Inner::Unkeyed(Asleep { waiting, sleep: None }))
    }
}

// Nothing in it is pinned: the timer is in a box.
impl<C: Timer> Unpin for Acquire<C> {}

impl<C: Timer> Future for Acquire<C> {
    type Output = Reservation;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reservation> {
        match &mut self.0 {
            Inner::Keyed(asleep) => asleep.poll(cx),
            Inner::Unkeyed(asleep) => asleep.poll(cx),
        }
    }
}

impl<K: Shape, C: Timer> Asleep<K, C> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reservation> {
        for _ in 0..2 {
            let due = match self.waiting.turn(cx.waker()) {
                Next::Done(reservation) => return Poll::Ready(reservation),
                Next::Wait(due) => due,
            };
            let Some(due) = due else {
                self.sleep = None;
                return Poll::Pending;
            };
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != due) {
                self.sleep = Some((due, self.waiting.handle.clock().sleep_until(due)));
            }
            if let Some((_, sleep)) = &mut self.sleep {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // If the timer was early, another one sleeps for the rest.
                self.sleep = None;
            }
        }
        // A timer that is early all the time must not keep the thread.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What one who waits does next.
enum Next {
    Done(Reservation),
    /// Look again when woken, and where there is a moment by the clock, then.
    Wait(Option<Timestamp>),
}

impl<K: Shape, C: Clock> Waiting<K, C> {
    pub(super) fn new(
        handle: Handle<K, C>,
        hash: u64,
        cost: Cost,
        within: Option<Duration>,
    ) -> Self {
        let deadline = within.map(|within| handle.now().saturating_add(within));
        Self { handle, hash, cost, deadline, ticket: None }
    }

    fn turn(&mut self, waker: &Waker) -> Next {
        let waiter = Waiter { cost: self.cost, deadline: self.deadline, waker };
        match self.handle.turn(self.hash, &mut self.ticket, waiter) {
            Turn::Done(outcome) => {
                Next::Done(self.handle.reservation(self.hash, outcome, Duration::ZERO))
            }
            Turn::Wait(due) => Next::Wait(due.and_then(|due| self.handle.by_the_clock(due))),
        }
    }

    /// Waits on this thread.
    pub(super) fn block(mut self) -> Reservation {
        let waker = unpark_this_thread();
        loop {
            match self.turn(&waker) {
                Next::Done(reservation) => return reservation,
                Next::Wait(due) => self.handle.clock().park_until(due),
            }
        }
    }
}

impl<K: Shape, C: Clock> Drop for Waiting<K, C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.handle.leave(self.hash, ticket);
        }
    }
}

impl<C: Timer> fmt::Debug for Acquire<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cost, ticket) = match &self.0 {
            Inner::Keyed(asleep) => (asleep.waiting.cost, asleep.waiting.ticket),
            Inner::Unkeyed(asleep) => (asleep.waiting.cost, asleep.waiting.ticket),
        };
        f.debug_struct("Acquire")
            .field("cost", &cost)
            .field("ticket", &ticket)
            .finish_non_exhaustive()
    }
}
