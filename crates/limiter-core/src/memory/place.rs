//! What happens in a queue.
//!
//! Only the first of a queue is ever told when to come back. When it has had its turn, the next is
//! told: so each is woken once to wait and once to go, and no one polls. Whoever comes and sees that
//! the first is due lets it have its turn, so that what is foreseen doesn't depend on how long it
//! takes the first to wake up. One who leaves makes room for all behind it, since none of them was
//! promised anything yet.

use alloc::vec::Vec;
use core::{mem, task::Waker, time::Duration};
use std::collections::HashMap;

use super::{
    engine::{Ask, Engine},
    queue::{Outcome, Queue, Ticket, Waiting},
    store::Store,
};
use crate::{
    Cost, Decision, Timestamp,
    algorithm::Algorithm,
    sync::{AtomicUsize, MutexGuard, Ordering},
};

/// The queue of one key, or where it would be, under its lock.
pub(super) struct Place<'a, S> {
    hash: u64,
    number: &'a AtomicUsize,
    queues: MutexGuard<'a, HashMap<u64, Queue<S>>>,
    // After the guard: fields are dropped in this order, and whoever is woken may want the lock, as
    // may whoever is dropped with the last of its wakers.
    wake: Wake,
    retired: Option<Waker>,
}

/// Who is woken when this is dropped.
struct Wake(Vec<Waker>);

/// What a waiter wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter<'a> {
    pub(super) cost: Cost,
    /// The last moment at which the permits are still of use.
    pub(super) deadline: Option<Timestamp>,
    pub(super) waker: &'a Waker,
}

/// What a waiter is told.
#[derive(Debug)]
pub(super) enum Turn {
    /// It has been decided.
    Done(Outcome),
    /// Its waker will be called; where there is a moment, it should look again by then.
    Wait(Option<Timestamp>),
}

impl<'a, S> Place<'a, S> {
    pub(super) const fn new(
        hash: u64,
        number: &'a AtomicUsize,
        queues: MutexGuard<'a, HashMap<u64, Queue<S>>>,
    ) -> Self {
        Self { hash, number, queues, wake: Wake(Vec::new()), retired: None }
    }

    /// Takes permits, or tells how long it will take until all who wait have had their turns.
    pub(super) fn reserve<A, T>(
        &mut self,
        engine: &Engine<A, T>,
        ask: Ask<'_>,
        cost: Cost,
        within: Duration,
    ) -> Outcome
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        self.call_due(engine, ask, None);
        let now = ask.moment.now;
        match self.queue() {
            Some(queue) if !queue.waiting.is_empty() => {
                let wait = queue.forecast(engine, ask, now, cost);
                (Decision::refused(engine.peek(ask), wait), None)
            }
            _ => engine.take(ask, cost, within).1,
        }
    }

    /// Lets a waiter have its turn; one without a ticket takes a place in the queue if it has to.
    pub(super) fn turn<A, T>(
        &mut self,
        engine: &Engine<A, T>,
        ask: Ask<'_>,
        ticket: &mut Option<Ticket>,
        waiter: Waiter<'_>,
    ) -> Turn
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        let Some(own) = *ticket else {
            return self.arrive(engine, ask, ticket, waiter);
        };
        self.call_due(engine, ask, Some(own));
        if let Some(outcome) = self.queue().and_then(|queue| queue.done.remove(&own)) {
            *ticket = None;
            self.remove_if_empty();
            return Turn::Done(outcome);
        }
        let is_first = self.is_first(own);
        let Some(queue) = self.queue() else {
            return Turn::Wait(None);
        };
        let due = is_first.then_some(queue.due);
        if let Some(waiting) = queue.waiting.get_mut(&own)
            && !waiting.waker.will_wake(waiter.waker)
        {
            self.retired = Some(mem::replace(&mut waiting.waker, waiter.waker.clone()));
        }
        Turn::Wait(due)
    }

    /// Gives up a place, and what may have been taken for it.
    pub(super) fn leave<A, T>(&mut self, engine: &Engine<A, T>, ask: Ask<'_>, own: Ticket)
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        let is_first = self.is_first(own);
        let Some(queue) = self.queue() else {
            return;
        };
        queue.forget_forecast();
        let waiting = queue.waiting.remove(&own);
        let charged = queue.done.remove(&own).and_then(|(_, charge)| charge);
        self.retired = waiting.map(|waiting| waiting.waker);
        if let Some(dated) = &charged {
            engine.give_back(ask, dated, dated.charge.cost.get());
        }
        if is_first || charged.is_some() {
            self.call_next(engine, ask, None);
        }
        self.remove_if_empty();
    }

    /// Lets the first see that the state has changed.
    pub(super) fn reconsider<A, T>(&mut self, engine: &Engine<A, T>, ask: Ask<'_>)
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        if let Some(queue) = self.queue() {
            queue.forget_forecast();
            self.call_next(engine, ask, None);
        }
    }

    fn arrive<A, T>(
        &mut self,
        engine: &Engine<A, T>,
        ask: Ask<'_>,
        ticket: &mut Option<Ticket>,
        waiter: Waiter<'_>,
    ) -> Turn
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        self.call_due(engine, ask, None);
        let now = ask.moment.now;
        let Waiter { cost, deadline, waker } = waiter;
        let in_time = |now, wait| in_time(now, wait, deadline, engine.longest_delay(ask));
        // Before anything is asked: who gives permits back after that shall find the queue.
        let queue = self.queue_or_new();
        let outcome = if queue.waiting.is_empty() {
            let (now, (decision, charge)) = engine.take(ask, cost, Duration::ZERO);
            let waits =
                charge.is_none() && decision.retry_after().is_some_and(|wait| in_time(now, wait));
            queue.tell_first(now, decision.retry_after().unwrap_or_default());
            // Those who have had their turns but have not looked yet may have left one.
            queue.forget_forecast();
            (!waits).then_some((decision, charge))
        } else if deadline.is_some() || !engine.always_queues(ask, cost) {
            let wait = queue.forecast(engine, ask, now, cost);
            let waits = wait.is_some_and(|wait| in_time(now, wait));
            (!waits).then(|| (Decision::refused(engine.peek(ask), wait), None))
        } else {
            None
        };
        if let Some(outcome) = outcome {
            self.remove_if_empty();
            return Turn::Done(outcome);
        }
        queue.extend_forecast(engine, ask, now, cost);
        let is_first = queue.waiting.is_empty();
        let waker = waker.clone();
        *ticket = Some(queue.push(Waiting { tier: ask.tier, cost, deadline, waker }));
        Turn::Wait(is_first.then_some(queue.due))
    }

    /// Lets the first have its turn if it is due, and those behind it.
    fn call_due<A, T>(&mut self, engine: &Engine<A, T>, ask: Ask<'_>, own: Option<Ticket>)
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        let now = ask.moment.now;
        let Some(queue) = self.queue().filter(|queue| queue.is_due(now)) else {
            return;
        };
        if queue.due != now {
            // It had been foreseen to go when it was due.
            queue.forget_forecast();
        }
        self.call_next(engine, ask, own);
    }

    /// Lets the first have its turn, and those behind it, until one has to wait.
    ///
    /// Whoever is concerned is woken, but for `own`, who is looking.
    fn call_next<A, T>(&mut self, engine: &Engine<A, T>, ask: Ask<'_>, own: Option<Ticket>)
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        let Some(queue) = self.queues.get_mut(&self.hash) else {
            return;
        };
        while let Some(first) = queue.waiting.first_entry() {
            let is_own = own == Some(*first.key());
            let Waiting { tier, cost, deadline, .. } = *first.get();
            let ask = Ask { tier, ..ask };
            let (now, (decision, charge)) = engine.take(ask, cost, Duration::ZERO);
            if let Some(wait) = decision.retry_after()
                && charge.is_none()
                && in_time(now, wait, deadline, Duration::MAX)
            {
                if !is_own {
                    self.wake.0.push(first.get().waker.clone());
                }
                queue.tell_first(now, wait);
                return;
            }
            let (ticket, Waiting { waker, .. }) = first.remove_entry();
            queue.done.insert(ticket, (decision, charge));
            if charge.is_none() || now != queue.due {
                // It had been foreseen to take something, and when it was due.
                queue.forget_forecast();
            }
            if is_own {
                self.retired = Some(waker);
            } else {
                self.wake.0.push(waker);
            }
        }
    }

    fn is_first(&mut self, own: Ticket) -> bool {
        let first = self.queue().and_then(|queue| queue.waiting.first_key_value());
        first.is_some_and(|(first, _)| *first == own)
    }

    fn queue(&mut self) -> Option<&mut Queue<S>> {
        self.queues.get_mut(&self.hash)
    }

    fn queue_or_new(&mut self) -> &mut Queue<S> {
        let number = self.number;
        self.queues.entry(self.hash).or_insert_with(|| {
            number.fetch_add(1, Ordering::Release);
            Queue::default()
        })
    }

    fn remove_if_empty(&mut self) {
        if self.queue().is_some_and(|queue| queue.waiting.is_empty() && queue.done.is_empty()) {
            self.queues.remove(&self.hash);
            self.number.fetch_sub(1, Ordering::Release);
            if self.queues.is_empty() {
                self.queues.shrink_to_fit();
            }
        }
    }
}

/// Returns whether a wait is worth it.
fn in_time(
    now: Timestamp,
    wait: Duration,
    deadline: Option<Timestamp>,
    longest_delay: Duration,
) -> bool {
    wait <= longest_delay && deadline.is_none_or(|deadline| now.saturating_add(wait) <= deadline)
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
