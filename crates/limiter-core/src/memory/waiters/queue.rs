//! The waiters for one key, in the order in which they came.
//!
//! Each waiter is due when it fits behind those before it, by a forecast made when it came, and sleeps
//! until then. Every operation on the key first charges the waiters that are due, each for the moment
//! at which it was due. So no permit is lost to a timer that fires late, and a waiter
//! that is never polled holds up nobody for longer than was forecast.
//!
//! The forecast is a copy of the key's state in which waiters are charged in advance. When a waiter
//! leaves or the state changes, the forecast restarts from the state at that moment, and the first
//! waiter is moved at once. Each of the others is moved when it becomes the first, or when a request
//! joins behind it: from the same copy, so that no permit is lost however late that is.
//!
//! The present of a queue is older than a state that another thread has charged since it was read. So states are
//! given the clock, and read it under their own locks: judged by the older reading, they could seem impossible.

use core::{mem, task::Waker, time::Duration};
use std::collections::BTreeMap;

use super::forecast::{Forecast, Ticket, Waiter};
use crate::{
    Algorithm, Cost, Timestamp,
    algorithms::{AnyTransition, State},
    memory::{
        states::{Outcome, Present},
        tables::{Limits, Tables},
    },
    ticks::whole,
};

/// The waiters for one key. A queue without any does not exist.
#[derive(Default)]
pub(crate) struct Queue {
    /// The hash of the key.
    key: u64,
    /// When the queue was last used.
    present: Present,
    waiting: BTreeMap<Ticket, Waiter>,
    /// How many permits the waiters ask for together.
    asked: u128,
    /// Whether waiters may be under several policies.
    is_mixed: bool,
    /// Waiters that were charged or refused, and have not seen it yet.
    done: BTreeMap<Ticket, Outcome>,
    last_ticket: Ticket,
    /// `None` only if there is at most one waiter.
    forecast: Option<Forecast>,
    /// Wakers to call, or to drop, once no lock is held.
    wake: Vec<Waker>,
    retired: Vec<Waker>,
}

/// The shortest wait of a refusal.
const SHORTEST: Duration = Duration::from_nanos(1);

/// Whether a waiter has been served.
pub(crate) enum Status {
    Done(Outcome),
    /// It sleeps until it is woken or due. `Timestamp::MAX` means never.
    Waiting(Ticket, Timestamp),
}

impl Queue {
    pub(crate) fn new(key: u64) -> Self {
        Self { key, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.done.is_empty()
    }

    /// Returns the wakers to call, and those to drop, once no lock is held. The first waiter is woken if it is due
    /// earlier than it sleeps.
    pub(crate) fn take_wakers(&mut self) -> (Vec<Waker>, Vec<Waker>) {
        if let Some(first) = self.waiting.values_mut().next()
            && first.due < first.sleeps_until
        {
            first.sleeps_until = first.due;
            self.wake.push(first.waker.clone());
        }
        (mem::take(&mut self.wake), mem::take(&mut self.retired))
    }

    /// Charges the waiters that are due, in their order.
    pub(crate) fn settle(&mut self, present: Present, tables: &Tables) {
        let now = present.now;
        if now < mem::replace(&mut self.present, present).now {
            // The clock stepped back: the waits that are left are longer.
            self.restart(tables);
        }
        while let Some(mut first) = self.waiting.first_entry() {
            let ticket = *first.key();
            let waiter = first.get_mut();
            let Waiter { ref limits, cost, deadline, due, .. } = *waiter;
            // By the clock, a moment in the past is the present: so the deadline is moved by as much.
            let (since, due_at) = (now.saturating_since(due), present.by_the_clock(due));
            let is_late = deadline.is_some_and(|deadline| deadline.saturating_add(since) < due_at);
            let outcome = if is_late {
                let wait = due.saturating_since(now).max(SHORTEST);
                tables.refusal(limits, self.key, Some(wait))
            } else if due <= now && due < Timestamp::MAX {
                let outcome = tables.take(limits, self.key, Some(due), cost, Duration::ZERO);
                if let Some(wait) = wait_of(&outcome) {
                    // Something was charged that was not foreseen.
                    if due < now {
                        self.restart(tables);
                    } else {
                        waiter.due = now.saturating_add(wait.max(SHORTEST));
                    }
                    continue;
                }
                outcome
            } else {
                break;
            };
            let waiter = first.remove();
            self.asked -= u128::from(waiter.cost.get());
            if outcome.charged.as_ref().is_some_and(|charged| charged.charges.at() == due) {
                if let Some(forecast) = &mut self.forecast {
                    forecast.charge(ticket, &waiter);
                }
                self.place_first();
            } else {
                // A late one was refused when those before it were served, however long ago that is.
                self.removed(ticket, if is_late { Timestamp::ZERO } else { now }, tables);
            }
            self.wake.push(waiter.waker);
            self.done.insert(ticket, outcome);
        }
    }

    /// Lets a new waiter in: it is charged at once, refused, or placed behind the others. `may_wait` counts it.
    pub(crate) fn join(
        &mut self,
        limits: &Limits,
        cost: Cost,
        deadline: Option<Timestamp>,
        waker: &Waker,
        tables: &Tables,
        may_wait: impl FnOnce() -> bool,
    ) -> Status {
        let (key, present) = (self.key, self.present);
        let take = || tables.take(limits, key, None, cost, Duration::ZERO);
        let outcome = self.refusal(limits, cost, tables).unwrap_or_else(take);
        let wait = wait_of(&outcome).filter(|wait| *wait <= longest_wait(limits));
        let due = wait.map(|wait| outcome.now.saturating_add(wait));
        let in_time = |due: &Timestamp| {
            deadline.is_none_or(|deadline| present.by_the_clock(*due) <= deadline)
        };
        let Some(due) = due.filter(in_time).filter(|_| may_wait()) else {
            return Status::Done(outcome);
        };
        let last = self.waiting.values().next_back();
        self.is_mixed =
            last.is_some_and(|last| self.is_mixed || last.limits.policy != limits.policy);
        self.last_ticket += 1;
        let (limits, waker) = (limits.clone(), waker.clone());
        let waiter = Waiter { limits, cost, deadline, waker, due, sleeps_until: due };
        self.waiting.insert(self.last_ticket, waiter);
        self.asked += u128::from(cost.get());
        Status::Waiting(self.last_ticket, due)
    }

    /// Returns what has become of a waiter, or until when it sleeps on: never less than the first one.
    /// At its deadline, a waiter that was not served is refused: those before it are due later than was
    /// foreseen, such as after a step back of the wall clock.
    pub(crate) fn poll(&mut self, ticket: Ticket, waker: &Waker, tables: &Tables) -> Status {
        if let Some(outcome) = self.done.remove(&ticket) {
            return Status::Done(outcome);
        }
        let first = self.waiting.values().next().map(|first| first.due);
        let Some(waiter) = self.waiting.get_mut(&ticket) else {
            return Status::Waiting(ticket, Timestamp::MAX);
        };
        if !waiter.waker.will_wake(waker) {
            self.retired.push(mem::replace(&mut waiter.waker, waker.clone()));
        }
        waiter.sleeps_until = waiter.due.max(first.unwrap_or_default());
        if waiter.deadline.is_none_or(|deadline| self.present.monotonic < deadline) {
            return Status::Waiting(ticket, waiter.sleeps_until);
        }
        let wait = waiter.sleeps_until.saturating_since(self.present.now);
        let refusal = tables.refusal(&waiter.limits, self.key, Some(wait));
        self.remove(ticket, tables);
        Status::Done(refusal)
    }

    /// Gives up a place, and what may have been charged for it.
    pub(crate) fn leave(&mut self, ticket: Ticket, limits: &Limits, tables: &Tables) {
        if let Some(outcome) = self.done.remove(&ticket) {
            if let Some(charged) = outcome.charged {
                let permits = charged.charges.permits();
                tables.refund(limits, self.key, &charged, permits);
                self.changed(tables);
            }
        } else {
            self.remove(ticket, tables);
        }
    }

    /// Removes a waiter that was not served, and settles those behind it.
    fn remove(&mut self, ticket: Ticket, tables: &Tables) {
        if let Some(waiter) = self.waiting.remove(&ticket) {
            self.asked -= u128::from(waiter.cost.get());
            self.retired.push(waiter.waker);
            self.removed(ticket, self.present.now, tables);
            self.settle(self.present, tables);
        }
    }

    /// Settles the waiters after a change of the state.
    pub(crate) fn changed(&mut self, tables: &Tables) {
        self.restart(tables);
        self.settle(self.present, tables);
    }

    /// Returns the refusal of a new waiter whose deadline is past.
    pub(crate) fn refusal_after(
        &mut self,
        deadline: Timestamp,
        limits: &Limits,
        cost: Cost,
        tables: &Tables,
    ) -> Option<Outcome> {
        if self.present.monotonic <= deadline {
            return None;
        }
        self.refusal(limits, cost, tables).or_else(|| {
            let (wait, _) = tables.wait(limits, self.key, cost);
            Some(tables.refusal(limits, self.key, wait.map(|wait| wait.max(SHORTEST))))
        })
    }

    /// Returns the refusal of a request that would have to wait behind all waiters, if there are any.
    /// Takes time in proportion to the waiters that are not charged in the forecast, and to the entries that it copies.
    pub(crate) fn refusal(
        &mut self,
        limits: &Limits,
        cost: Cost,
        tables: &Tables,
    ) -> Option<Outcome> {
        let (key, now) = (self.key, self.present.now);
        let Some((next, first)) = self.waiting.first_key_value() else {
            debug_assert_eq!(self.asked, 0, "nobody asks for permits");
            self.forecast = None;
            return None;
        };
        let is_mixed = self.is_mixed || first.limits.policy != limits.policy;
        let own = if can_admit(limits, cost) { cost.get() } else { 0 };
        self.forecast.take_if(|forecast| {
            let later = self.waiting.range(forecast.next..);
            let later = later.map(|(_, waiter)| u128::from(waiter.cost.get())).sum();
            !forecast.covers(limits, whole(later).saturating_add(own), !is_mixed)
        });
        let forecast = self.forecast.get_or_insert_with(|| {
            let asked = (!is_mixed).then(|| whole(self.asked).saturating_add(own));
            let waiters = self.waiting.values().map(|waiter| &waiter.limits);
            let waiters = waiters.take(if is_mixed { usize::MAX } else { 0 });
            Forecast::new(waiters.chain([limits]), key, tables, asked, *next)
        });
        for (ticket, waiter) in self.waiting.range_mut(forecast.next..) {
            forecast.place(waiter);
            forecast.charge(*ticket, waiter);
        }
        let due = forecast.due(limits, now, cost);
        let wait = due.map(|due| due.saturating_since(now));
        Some(Outcome { now, ..tables.refusal(limits, key, wait) })
    }

    /// Moves the waiters behind one that was removed at a moment and was not charged as foreseen.
    fn removed(&mut self, ticket: Ticket, at: Timestamp, tables: &Tables) {
        match &mut self.forecast {
            Some(forecast) if forecast.next <= ticket => {
                forecast.last = forecast.last.max(at);
                self.place_first();
            }
            _ => self.restart(tables),
        }
    }

    /// Computes when the first waiter is due, from the state as it is now, and copies the state if
    /// there are waiters behind it.
    fn restart(&mut self, tables: &Tables) {
        self.forecast = None;
        let Some((next, first)) = self.waiting.first_key_value() else { return };
        let (wait, now) = tables.wait(&first.limits, self.key, first.cost);
        if self.waiting.len() > 1 {
            let asked = (!self.is_mixed).then(|| whole(self.asked));
            let waiters = self.waiting.values().map(|waiter| &waiter.limits);
            let waiters = waiters.take(if self.is_mixed { usize::MAX } else { 1 });
            self.forecast = Some(Forecast::new(waiters, self.key, tables, asked, *next));
        }
        if let Some(mut first) = self.waiting.first_entry() {
            // It is served at once if it fits, and refused if it never does.
            let wait = wait.filter(|wait| !wait.is_zero());
            first.get_mut().due = wait.map_or(self.present.now, |wait| now.saturating_add(wait));
        }
    }

    /// Computes when the first waiter is due, unless it is charged in the forecast.
    fn place_first(&mut self) {
        if let Some(forecast) = &mut self.forecast
            && let Some((ticket, first)) = self.waiting.iter_mut().next()
            && forecast.next <= *ticket
        {
            forecast.place(first);
        }
    }
}

/// Returns how long a refused request has to wait, `None` if it was admitted or never fits.
fn wait_of(outcome: &Outcome) -> Option<Duration> {
    outcome.decision.retry_after().filter(|_| !outcome.decision.is_admitted())
}

/// Returns whether a cost ever fits.
fn can_admit(limits: &Limits, cost: Cost) -> bool {
    let fits = |transition: &AnyTransition| {
        transition.wait(&State::Fresh, Timestamp::ZERO, cost).is_some()
    };
    limits.policy.transitions().iter().all(fits)
}

/// Returns the longest that a policy lets anyone wait: the depths of its queues.
fn longest_wait(limits: &Limits) -> Duration {
    let limits = limits.policy.limits().iter();
    let queues = limits.filter(|limit| matches!(limit.algorithm(), Algorithm::LeakyQueue { .. }));
    queues.map(crate::Limit::horizon).min().unwrap_or(Duration::MAX)
}
