//! Waiting with a place in a queue, as a future or on a thread: for permits of a rate, and of requests in flight.

use std::{
    future::poll_fn,
    ops::ControlFlow::{self, Break, Continue},
    task::{Poll, Waker},
};

use crate::{Clock, Timer, Timestamp, sync::unpark_this_thread};

/// A request that can wait in a queue, where it gives up its place when it is dropped.
pub(crate) trait Wait: Sized {
    type Clock: Clock;
    type Answer;

    fn clock(&self) -> &Self::Clock;

    /// Returns the answer, or when it is due as the queue counts time. It takes its place when it is first polled.
    fn poll(&mut self, waker: &Waker) -> ControlFlow<Self::Answer, Timestamp>;

    /// Returns until when to sleep by the clock if not woken before, for a moment at which it is due.
    fn wake_at(&self, due: Timestamp) -> Option<Timestamp>;

    /// Waits as a future.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready, like any `async` block.
    async fn wait(mut self) -> Self::Answer
    where
        Self::Clock: Timer,
    {
        // When it is due, and the timer for it. That moment by the clock would differ at each poll,
        // because two clocks are read, and make a new timer.
        let mut sleep: Option<(Timestamp, _)> = None;
        poll_fn(|cx| {
            let due = match self.poll(cx.waker()) {
                Break(answer) => return Poll::Ready(answer),
                Continue(due) => due,
            };
            sleep = sleep.take().filter(|(until, _)| *until == due);
            if sleep.is_none() {
                let clock = self.clock();
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
    fn block(mut self) -> Self::Answer {
        let waker = unpark_this_thread();
        loop {
            match self.poll(&waker) {
                Break(answer) => return answer,
                Continue(due) => self.clock().park_until(self.wake_at(due)),
            }
        }
    }
}
