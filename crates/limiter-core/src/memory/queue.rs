//! The waiters for one key, in the order in which they came.
//!
//! Each waiter is due when it fits behind those before it, by a forecast made when it came, and sleeps
//! until then. Every operation on the key first charges the waiters that are due, each for the moment
//! at which it was due. So nothing polls, no permit is lost to a timer that fires late, and a waiter
//! that is never polled holds up nobody for longer than was forecast.
//!
//! What makes waiters due earlier, such as a refund or a waiter that leaves, moves the first at once;
//! each of the others is moved when it becomes the first.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::{mem, task::Waker, time::Duration};
use std::collections::HashMap;

use super::{
    states::{Bound, States},
    word::{Outcome, When},
};
use crate::{
    Algorithm, Cost, Decision, Timestamp,
    algorithm::{State, Transition},
    sync::{AtomicUsize, Mutex, Ordering, fence, lock},
};

/// The waiters for one key. A queue without any does not exist.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiter>,
    /// Waiters that were charged or refused, and have not seen it yet.
    done: BTreeMap<Ticket, Outcome>,
    last_ticket: Ticket,
    /// The state after all waiters were charged, and when that will be. `None` if the waiters behind
    /// the first may be due earlier than was forecast.
    forecast: Option<(State, Timestamp)>,
    /// The latest moment at which the queue was used.
    latest: Timestamp,
}

/// A place in a queue, earlier ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    bound: Arc<Bound>,
    cost: Cost,
    /// The last moment at which the permits are of use.
    deadline: Option<Timestamp>,
    waker: Waker,
    due: Timestamp,
    /// Until when it sleeps.
    sleeps_until: Timestamp,
}

/// What a waiter asks for.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) bound: &'a Arc<Bound>,
    pub(super) cost: Cost,
    pub(super) deadline: Option<Timestamp>,
    pub(super) waker: &'a Waker,
}

/// What a waiter does next.
#[derive(Debug)]
pub(super) enum Turn {
    Done(Outcome),
    /// It sleeps until it is woken or due; `None` if it will never be due.
    Wait(Ticket, Option<Timestamp>),
}

/// The state that a queue waits for: of which key, where it is stored, and the present.
pub(super) struct Target<'a> {
    pub(super) states: &'a States,
    pub(super) hash: u64,
    pub(super) now: Timestamp,
    /// Wakers to call, or to drop, once no lock is held.
    pub(super) wake: Vec<Waker>,
    pub(super) retired: Vec<Waker>,
}

impl Target<'_> {
    /// Charges a waiter for the moment at which it is due.
    fn take(&self, bound: &Bound, due: Timestamp, cost: Cost) -> Outcome {
        let when = When { at: Some(due), clock: &|| self.now };
        self.states.take(self.hash, bound, when, cost, Duration::ZERO)
    }

    /// Returns a refusal of what would have to wait.
    fn refusal(&self, bound: &Bound, wait: Option<Duration>) -> Outcome {
        let usage = self.states.peek(self.hash, bound, When::now(&|| self.now));
        (Decision::refused(usage, wait), None)
    }

    fn snapshot(&self, bound: &Bound) -> State {
        self.states.with(self.hash, bound, When::now(&|| self.now), |state, _| state.clone())
    }
}

impl Waiter {
    fn is_too_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline < self.due)
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.done.is_empty()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Charges the waiters that are due, in their order.
    fn settle(&mut self, target: &mut Target<'_>) {
        if target.now < mem::replace(&mut self.latest, target.now) {
            // The clock stepped back: the waits that are left are longer.
            self.reconsider_first(target);
        }
        while let Some(first) = self.waiting.front_mut() {
            let outcome = if first.is_too_late() {
                let wait = first.due.saturating_since(target.now);
                target.refusal(&first.bound, Some(wait))
            } else if first.due <= target.now && first.due < Timestamp::MAX {
                let outcome = target.take(&first.bound, first.due, first.cost);
                if let (Some(wait), None) = (outcome.0.retry_after(), outcome.1) {
                    // Something was charged that was not foreseen.
                    first.due = first.due.saturating_add(wait.max(Duration::from_nanos(1)));
                    self.forecast = None;
                    continue;
                }
                outcome
            } else {
                // What is due at the end of time is never due.
                break;
            };
            let is_foreseen = outcome.1.is_some();
            if let Some(Waiter { ticket, waker, .. }) = self.waiting.pop_front() {
                target.wake.push(waker);
                self.done.insert(ticket, outcome);
            }
            if self.forecast.is_none() || !is_foreseen {
                self.reconsider_first(target);
            }
        }
        if let Some(first) = self.waiting.front_mut()
            && first.due < first.sleeps_until
        {
            first.sleeps_until = first.due;
            target.wake.push(first.waker.clone());
        }
    }

    /// Lets a new waiter in: it is charged at once, refused, or placed behind the others.
    pub(super) fn join(&mut self, target: &mut Target<'_>, request: Request<'_>) -> Turn {
        let Request { bound, cost, deadline, waker } = request;
        let outcome = if self.waiting.is_empty() {
            self.forecast = None;
            target.take(bound, target.now, cost)
        } else {
            self.refusal(target, bound, cost)
        };
        let wait = outcome.0.retry_after().filter(|_| outcome.1.is_none());
        let longest = longest_wait(bound);
        let in_time = |wait: &Duration| {
            let due = target.now.saturating_add(*wait);
            *wait <= longest && deadline.is_none_or(|deadline| due <= deadline)
        };
        let Some(wait) = wait.filter(in_time) else {
            return Turn::Done(outcome);
        };
        let due = target.now.saturating_add(wait);
        if let Some((state, last)) = &mut self.forecast {
            *last = (*last).max(due);
            bound.rule().advance(state, *last);
            bound.rule().charge(state, *last, cost);
        }
        self.last_ticket.0 += 1;
        let ticket = self.last_ticket;
        let (bound, waker) = (Arc::clone(bound), waker.clone());
        let waiter = Waiter { ticket, bound, cost, deadline, waker, due, sleeps_until: due };
        self.waiting.push_back(waiter);
        Turn::Wait(ticket, sleep(due))
    }

    /// Returns what has become of a waiter, or until when it sleeps on.
    pub(super) fn look(&mut self, target: &mut Target<'_>, ticket: Ticket, waker: &Waker) -> Turn {
        if let Some(outcome) = self.done.remove(&ticket) {
            return Turn::Done(outcome);
        }
        let Some(waiter) = self.index_of(ticket).and_then(|index| self.waiting.get_mut(index))
        else {
            return Turn::Wait(ticket, None);
        };
        if !waiter.waker.will_wake(waker) {
            target.retired.push(mem::replace(&mut waiter.waker, waker.clone()));
        }
        waiter.sleeps_until = waiter.due;
        Turn::Wait(ticket, sleep(waiter.due))
    }

    /// Gives up a place, and what may have been charged for it.
    pub(super) fn leave(&mut self, target: &mut Target<'_>, ticket: Ticket, bound: &Bound) {
        if let Some((_, charge)) = self.done.remove(&ticket) {
            if let Some(charge) = charge {
                let (Target { states, hash, now, .. }, permits) = (&*target, charge.cost.get());
                states.give_back(*hash, bound, When::now(&|| *now), &charge, permits);
                self.changed(target);
            }
        } else if let Some(index) = self.index_of(ticket) {
            target.retired.extend(self.waiting.remove(index).map(|waiter| waiter.waker));
            self.forecast = None;
            if index == 0 {
                self.changed(target);
            }
        }
    }

    /// Lets the waiters see that the state has changed.
    pub(super) fn changed(&mut self, target: &mut Target<'_>) {
        self.reconsider_first(target);
        self.settle(target);
    }

    fn index_of(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    /// Returns the refusal of a request that would have to wait behind all waiters. Takes time in
    /// proportion to their number where one of them has left or was not charged as foreseen.
    pub(super) fn refusal(&mut self, target: &Target<'_>, bound: &Bound, cost: Cost) -> Outcome {
        let (state, last) = self.forecast.get_or_insert_with(|| {
            let mut state = target.snapshot(bound);
            let mut last = target.now;
            for waiter in &mut self.waiting {
                let rule = waiter.bound.rule();
                rule.advance(&mut state, last);
                // A cost that does not fit any more is refused when it is the first.
                let Some(wait) = rule.wait(&state, last, waiter.cost) else { continue };
                last = last.saturating_add(wait);
                waiter.due = last;
                rule.advance(&mut state, last);
                rule.charge(&mut state, last, waiter.cost);
            }
            (state, last)
        });
        let then = (*last).max(target.now);
        bound.rule().advance(state, then);
        let wait = bound.rule().wait(state, then, cost);
        let ahead = then.saturating_since(target.now);
        target.refusal(bound, wait.map(|wait| ahead.saturating_add(wait)))
    }

    /// Computes when the first is due, from the state as it is now. The others follow when each of them
    /// is the first.
    fn reconsider_first(&mut self, target: &Target<'_>) {
        self.forecast = None;
        if let Some(Waiter { bound, cost, due, .. }) = self.waiting.front_mut() {
            let wait = bound.rule().wait(&target.snapshot(bound), target.now, *cost);
            // A cost that never fits is due at once, to be refused.
            *due = target.now.saturating_add(wait.unwrap_or_default());
        }
    }
}

/// The queues of all keys that have waiters, by the hash of the key.
#[derive(Debug)]
pub(super) struct Queues {
    shards: [Shard; SHARDS],
}

/// In models, a single one, because the hash of a key is random.
const SHARDS: usize = if cfg!(loom) { 1 } else { 32 };

#[derive(Debug, Default)]
struct Shard {
    /// How many queues there are. Changed under the lock, and read without it: an operation that
    /// reads zero precedes the waiters to come.
    number: AtomicUsize,
    queues: Mutex<HashMap<u64, Queue>>,
}

impl Queues {
    pub(super) fn new() -> Self {
        Self { shards: core::array::from_fn(|_| Shard::default()) }
    }

    /// Returns whether there are no waiters for this key, and maybe for some others.
    #[inline]
    pub(super) fn are_empty_for(&self, hash: u64) -> bool {
        self.shard(hash).number.load(Ordering::Acquire) == 0
    }

    /// Charges the waiters of a key that are due, and then runs `operate` on the key's queue. A key
    /// without a queue gets one.
    pub(super) fn with<R>(
        &self,
        states: &States,
        hash: u64,
        clock: &dyn Fn() -> Timestamp,
        operate: impl FnOnce(&mut Queue, &mut Target<'_>) -> R,
    ) -> R {
        let shard = self.shard(hash);
        let (result, target) = {
            let mut queues = lock(&shard.queues);
            let queue = queues.entry(hash).or_insert_with(|| {
                shard.number.fetch_add(1, Ordering::SeqCst);
                // Before the state is read: a refund finds the queue, or was before.
                fence(Ordering::SeqCst);
                Queue::default()
            });
            let (wake, retired) = (Vec::new(), Vec::new());
            let mut target = Target { states, hash, now: clock(), wake, retired };
            queue.settle(&mut target);
            let result = operate(queue, &mut target);
            if queue.is_empty() {
                queues.remove(&hash);
                shard.number.fetch_sub(1, Ordering::SeqCst);
                if queues.is_empty() {
                    queues.shrink_to_fit();
                }
            }
            (result, target)
        };
        // After the lock is released, because a waker and a drop may take it again.
        target.wake.into_iter().for_each(Waker::wake);
        drop(target.retired);
        result
    }

    /// Returns whether there is a queue for this very key.
    pub(super) fn has(&self, hash: u64) -> bool {
        !self.are_empty_for(hash) && lock(&self.shard(hash).queues).contains_key(&hash)
    }

    fn shard(&self, hash: u64) -> &Shard {
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "the remainder is below the length"
        )]
        &self.shards[hash as usize % SHARDS]
    }
}

/// Returns the longest that a policy lets anyone wait: the depths of its queues.
fn longest_wait(bound: &Bound) -> Duration {
    let limits = bound.policy.limits().iter();
    let queues = limits.filter(|limit| matches!(limit.algorithm(), Algorithm::LeakyQueue { .. }));
    queues.map(crate::Limit::horizon).min().unwrap_or(Duration::MAX)
}

/// Returns until when to sleep. What is due at the end of time is never due.
fn sleep(due: Timestamp) -> Option<Timestamp> {
    (due < Timestamp::MAX).then_some(due)
}
