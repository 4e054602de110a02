//! The waiters for one key, in the order in which they came.
//!
//! Each waiter is due when it fits behind those before it, by a forecast made when it came, and sleeps
//! until then. Every operation on the key first charges the waiters that are due, each for the moment
//! at which it was due. So nothing polls, no permit is lost to a timer that fires late, and a waiter
//! that is never polled holds up nobody for longer than was forecast.
//!
//! What makes waiters due earlier, such as a refund or a waiter that leaves, moves the first at once;
//! each of the others is moved when it becomes the first.

use core::{mem, task::Waker, time::Duration};
use std::collections::{BTreeMap, HashMap};

use super::{
    states::States,
    table::part_of,
    words::{Now, Outcome},
};
use crate::{
    Algorithm, Cost, Decision, Timestamp,
    algorithm::{Rule, State, Transition},
    sync::{AtomicUsize, Mutex, Ordering, fence, lock},
};

/// The waiters for one key. A queue without any does not exist.
#[derive(Default)]
pub(super) struct Queue {
    hash: u64,
    /// The present, when the queue was last used.
    now: Timestamp,
    waiting: BTreeMap<Ticket, Waiter>,
    /// Waiters that were charged or refused, and have not seen it yet.
    done: BTreeMap<Ticket, Outcome>,
    last_ticket: Ticket,
    /// `None` if the waiters behind the first may be due earlier than was forecast.
    forecast: Option<Forecast>,
    /// Wakers to call, or to drop, once no lock is held.
    wake: Vec<Waker>,
    retired: Vec<Waker>,
}

/// A place in a queue, earlier ones first.
pub(super) type Ticket = u64;

struct Waiter {
    states: States,
    cost: Cost,
    /// The last moment at which the permits are of use.
    deadline: Option<Timestamp>,
    waker: Waker,
    due: Timestamp,
    /// Until when it sleeps.
    sleeps_until: Timestamp,
}

/// Whether a waiter has been served.
pub(super) enum Status {
    Done(Outcome),
    /// It sleeps until it is woken or due. `Timestamp::MAX` means never.
    Waiting(Ticket, Timestamp),
}

/// The state after all waiters were charged, and when that will be.
struct Forecast {
    state: State,
    last: Timestamp,
}

impl Forecast {
    /// Returns when a cost fits behind all waiters.
    fn due(&mut self, rule: &Rule, now: Timestamp, cost: Cost) -> Option<Timestamp> {
        self.last = self.last.max(now);
        rule.advance(&mut self.state, self.last);
        let wait = rule.wait(&self.state, self.last, cost);
        wait.map(|wait| self.last.saturating_add(wait))
    }

    fn charge(&mut self, rule: &Rule, due: Timestamp, cost: Cost) {
        self.last = due;
        rule.charge(&mut self.state, due, cost);
    }
}

impl Queue {
    /// Charges the waiters that are due, in their order.
    fn settle(&mut self, now: Timestamp) {
        if now < mem::replace(&mut self.now, now) {
            // The clock stepped back: the waits that are left are longer.
            self.reconsider_first();
        }
        while let Some(mut first) = self.waiting.first_entry() {
            let Waiter { states, cost, deadline, due, .. } = first.get_mut();
            let outcome = if deadline.is_some_and(|deadline| deadline < *due) {
                refusal(states, self.hash, now, Some(due.saturating_since(now)))
            } else if *due <= now && *due < Timestamp::MAX {
                let outcome = states.take(self.hash, &|| now, Some(*due), *cost, Duration::ZERO);
                if let (Some(wait), None) = (outcome.0.retry_after(), outcome.1) {
                    // Something was charged that was not foreseen.
                    *due = due.saturating_add(wait.max(Duration::from_nanos(1)));
                    self.forecast = None;
                    continue;
                }
                outcome
            } else {
                break;
            };
            let (ticket, waiter) = first.remove_entry();
            self.wake.push(waiter.waker);
            self.done.insert(ticket, outcome);
            if self.forecast.is_none() || outcome.1.is_none() {
                self.reconsider_first();
            }
        }
        if let Some(first) = self.waiting.values_mut().next()
            && first.due < first.sleeps_until
        {
            first.sleeps_until = first.due;
            self.wake.push(first.waker.clone());
        }
    }

    /// Lets a new waiter in: it is charged at once, refused, or placed behind the others.
    pub(super) fn join(
        &mut self,
        states: &States,
        cost: Cost,
        deadline: Option<Timestamp>,
        waker: &Waker,
    ) -> Status {
        let (hash, now) = (self.hash, self.now);
        let take = || states.take(hash, &|| now, None, cost, Duration::ZERO);
        let outcome = self.refusal(states, cost).unwrap_or_else(take);
        let wait = outcome.0.retry_after().filter(|_| outcome.1.is_none());
        let wait = wait.filter(|wait| *wait <= longest_wait(states));
        let due = wait.map(|wait| now.saturating_add(wait));
        let in_time = |due: &Timestamp| deadline.is_none_or(|deadline| *due <= deadline);
        let Some(due) = due.filter(in_time) else {
            return Status::Done(outcome);
        };
        if let Some(forecast) = &mut self.forecast {
            forecast.charge(states.rule(), due, cost);
        }
        self.last_ticket += 1;
        let (states, waker) = (states.clone(), waker.clone());
        let waiter = Waiter { states, cost, deadline, waker, due, sleeps_until: due };
        self.waiting.insert(self.last_ticket, waiter);
        Status::Waiting(self.last_ticket, due)
    }

    /// Returns what has become of a waiter, or until when it sleeps on.
    pub(super) fn poll(&mut self, ticket: Ticket, waker: &Waker) -> Status {
        if let Some(outcome) = self.done.remove(&ticket) {
            return Status::Done(outcome);
        }
        let Some(waiter) = self.waiting.get_mut(&ticket) else {
            return Status::Waiting(ticket, Timestamp::MAX);
        };
        if !waiter.waker.will_wake(waker) {
            self.retired.push(mem::replace(&mut waiter.waker, waker.clone()));
        }
        waiter.sleeps_until = waiter.due;
        Status::Waiting(ticket, waiter.due)
    }

    /// Gives up a place, and what may have been charged for it.
    pub(super) fn leave(&mut self, ticket: Ticket, states: &States) {
        match self.done.remove(&ticket) {
            Some((_, Some(charge))) => {
                states.refund(self.hash, &|| self.now, &charge, charge.cost.get());
            }
            Some((_, None)) => return,
            None => self.retired.extend(self.waiting.remove(&ticket).map(|waiter| waiter.waker)),
        }
        self.changed();
    }

    /// Settles the waiters after a change of the state.
    pub(super) fn changed(&mut self) {
        self.reconsider_first();
        self.settle(self.now);
    }

    /// Returns the refusal of a request that would have to wait behind all waiters, if there are any.
    /// Takes time in proportion to their number where one of them has left or was not charged as
    /// foreseen.
    pub(super) fn refusal(&mut self, states: &States, cost: Cost) -> Option<Outcome> {
        let (hash, now) = (self.hash, self.now);
        if self.waiting.is_empty() {
            self.forecast = None;
            return None;
        }
        let forecast = self.forecast.get_or_insert_with(|| {
            let state = states.read(hash, &|| now, |_, state, _| state.clone()).0;
            let mut forecast = Forecast { state, last: now };
            for Waiter { states, cost, due, .. } in self.waiting.values_mut() {
                // A cost that does not fit any more is refused when it is the first.
                if let Some(next) = forecast.due(states.rule(), now, *cost) {
                    *due = next;
                    forecast.charge(states.rule(), next, *cost);
                }
            }
            forecast
        });
        let due = forecast.due(states.rule(), now, cost);
        Some(refusal(states, hash, now, due.map(|due| due.saturating_since(now))))
    }

    /// Computes when the first is due, from the state as it is now. The others follow when each of them
    /// is the first.
    fn reconsider_first(&mut self) {
        self.forecast = None;
        if let Some(Waiter { states, cost, due, .. }) = self.waiting.values_mut().next() {
            let wait = |rule: &Rule, state: &_, now| rule.wait(state, now, *cost);
            let (wait, _) = states.read(self.hash, &|| self.now, wait);
            // A cost that never fits is due at once, to be refused.
            *due = self.now.saturating_add(wait.unwrap_or_default());
        }
    }
}

/// The queues of all keys that have waiters, by the hash of the key.
#[derive(Default)]
pub(super) struct Queues {
    shards: [Shard; SHARDS],
}

/// In models, a single one, because the hash of a key is random.
const SHARDS: usize = if cfg!(loom) { 1 } else { 32 };

#[derive(Default)]
struct Shard {
    /// How many queues there are. Changed under the lock, and read without it: an operation that
    /// reads zero precedes the waiters to come.
    number: AtomicUsize,
    queues: Mutex<HashMap<u64, Queue>>,
}

impl Queues {
    /// Returns whether there are no waiters for this key, and maybe for some others.
    #[inline]
    pub(super) fn are_empty_for(&self, hash: u64) -> bool {
        part_of(&self.shards, hash).number.load(Ordering::Acquire) == 0
    }

    /// Returns whether there is a queue for this very key.
    pub(super) fn has(&self, hash: u64) -> bool {
        let has = || lock(&part_of(&self.shards, hash).queues).contains_key(&hash);
        !self.are_empty_for(hash) && has()
    }

    /// Charges the waiters of a key that are due, and then runs `operate` on the key's queue. A key
    /// without a queue gets one.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        operate: impl FnOnce(&mut Queue) -> R,
    ) -> R {
        let shard = part_of(&self.shards, hash);
        let mut queues = lock(&shard.queues);
        let queue = queues.entry(hash).or_insert_with(|| {
            shard.number.fetch_add(1, Ordering::SeqCst);
            // Before the state is read: a refund finds the queue, or was before.
            fence(Ordering::SeqCst);
            Queue { hash, ..Queue::default() }
        });
        queue.settle(clock());
        let result = operate(queue);
        let (wake, retired) = (mem::take(&mut queue.wake), mem::take(&mut queue.retired));
        if queue.waiting.is_empty() && queue.done.is_empty() {
            queues.remove(&hash);
            shard.number.fetch_sub(1, Ordering::SeqCst);
            if queues.is_empty() {
                queues.shrink_to_fit();
            }
        }
        // A waker, and a drop, may take the lock again.
        drop(queues);
        wake.into_iter().for_each(Waker::wake);
        drop(retired);
        result
    }
}

/// Returns a refusal of what would have to wait.
fn refusal(states: &States, hash: u64, now: Timestamp, wait: Option<Duration>) -> Outcome {
    (Decision::refused(states.usage(hash, &|| now), wait), None)
}

/// Returns the longest that a policy lets anyone wait: the depths of its queues.
fn longest_wait(states: &States) -> Duration {
    let limits = states.policy.limits().iter();
    let queues = limits.filter(|limit| matches!(limit.algorithm(), Algorithm::LeakyQueue { .. }));
    queues.map(crate::Limit::horizon).min().unwrap_or(Duration::MAX)
}
