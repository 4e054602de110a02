//! Waiting for a permit: as a future, or on a thread.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use super::{
    queue::{CallLimit, Ticket},
    shard::{Joined, Shard, Taken},
};
use crate::{Clock, Entry, Timer, Timestamp, in_flight::permit::Owner, sync::unpark_this_thread};

/// A request for a permit with its place in the queue, which it gives up when it is dropped.
pub(crate) struct Acquire {
    pub(crate) shard: Arc<Shard>,
    pub(crate) hash: u64,
    pub(crate) limit: CallLimit,
    /// By [`Clock::now`].
    pub(crate) deadline: Option<Timestamp>,
    /// `None` before it has joined the queue, and after it has left.
    pub(crate) ticket: Option<Ticket>,
}

impl Acquire {
    /// Returns the answer, or `None` if it waits.
    fn next(&mut self, clock: &impl Clock, waker: &Waker) -> Option<Entry> {
        let taken = match self.ticket {
            Some(ticket) => self.poll(ticket, clock, waker)?,
            None if self.is_late(clock) => self.shard.take(self.hash, self.limit),
            None => match self.shard.take_or_join(self.hash, self.limit, waker) {
                Joined::Done(taken) => taken,
                Joined::Waiting(ticket) => {
                    self.ticket = Some(ticket);
                    return None;
                }
            },
        };
        self.ticket = None;
        Some(self.shard.entry(self.hash, taken))
    }

    fn poll(&self, ticket: Ticket, clock: &impl Clock, waker: &Waker) -> Option<Taken> {
        if self.is_late(clock) {
            return Some(self.shard.leave(self.hash, ticket, self.limit));
        }
        self.shard.poll(self.hash, ticket, self.limit, waker).map(Ok)
    }

    fn is_late(&self, clock: &impl Clock) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= clock.now())
    }

    /// Waits as a future, which takes its place in the queue when it is first polled.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready, like any `async` block.
    pub(crate) async fn wait<C: Timer>(mut self, clock: Arc<C>) -> Entry {
        let mut sleep = None;
        poll_fn(|cx| {
            if let Some(entry) = self.next(&clock, cx.waker()) {
                return Poll::Ready(entry);
            }
            if let Some(deadline) = self.deadline {
                let timer = sleep.get_or_insert_with(|| clock.sleep_until(deadline));
                if timer.as_mut().poll(cx).is_ready() {
                    // It is late by now, or the timer was early and another one sleeps for the rest.
                    sleep = None;
                    cx.waker().wake_by_ref();
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits on this thread.
    pub(crate) fn block(mut self, clock: &impl Clock) -> Entry {
        let waker = unpark_this_thread();
        loop {
            match self.next(clock, &waker) {
                Some(entry) => return entry,
                None => clock.park_until(self.deadline),
            }
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && let Ok(grant) = self.shard.leave(self.hash, ticket, self.limit)
        {
            self.shard.give_back(self.hash, grant.generation);
        }
    }
}
