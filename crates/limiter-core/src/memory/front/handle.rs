//! Every operation of the limiter, by the hash of a key.

use core::time::Duration;
use std::sync::Arc;

use crate::{
    Clock, Cost, Decision, Error, LimiterId, Policy, Receipt, Reservation, Source, Timestamp,
    Usage,
    charge::Charged,
    memory::{
        present::{Now, Present},
        states::{Outcome, Room, States},
        taking::Taking,
        waiters::{Queue, Queues},
    },
    receipt::Taken,
    sync::{Bounded, Ordering, fence},
};

/// A handle on a limiter's states under one policy.
pub(crate) struct Handle<C> {
    shared: Arc<Shared<C>>,
    pub(crate) states: States,
}

/// What all handles of a limiter share.
struct Shared<C> {
    /// Also separates this limiter's receipts from those of others.
    id: LimiterId,
    queues: Queues,
    waiting: Bounded,
    /// Shared with siblings.
    clock: Arc<C>,
    room: Room,
    /// Whether states count in Unix time.
    unix_time: bool,
}

impl<C: Clock> Handle<C> {
    /// Returns a handle on the states of a new limiter.
    pub(crate) fn new(id: LimiterId, policy: Policy, room: Room, clock: Arc<C>) -> Self {
        let states = States::new(policy, room);
        let (queues, unix_time) = (Queues::new(room.keys), states.policy.reads_unix_time());
        let waiting = Bounded::new(room.max_waiting);
        let shared = Shared { id, queues, waiting, clock, room, unix_time };
        Self { shared: Arc::new(shared), states }
    }

    /// Returns a handle on other states, of a limiter with the same clock and room for so many keys.
    pub(crate) fn sibling(&self, policy: &Policy, keys: usize) -> Self {
        let Shared { id, clock, room, .. } = &*self.shared;
        let room = Room { keys, ..*room };
        Self::new(id.sibling(), policy.clone(), room, Arc::clone(clock))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.shared.room.keys
    }

    pub(crate) fn id(&self) -> LimiterId {
        self.shared.id
    }

    /// Returns how many waiters there are.
    pub(crate) fn waiting(&self) -> &Bounded {
        &self.shared.waiting
    }

    pub(crate) fn clock(&self) -> &C {
        &self.shared.clock
    }

    pub(crate) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        let states = self.states.with_policy(policy)?;
        Ok(Self { shared: Arc::clone(&self.shared), states })
    }

    #[inline(never)]
    pub(crate) fn check(&self, hash: u64, cost: Cost) -> Decision {
        if self.shared.queues.are_empty_for(hash)
            && let Some(decision) = self.states.check(hash, &|| self.now(), cost)
        {
            return decision;
        }
        self.check_locked(hash, cost)
    }

    /// Does what [`check`](Self::check) does where that takes a lock.
    #[inline(never)]
    fn check_locked(&self, hash: u64, cost: Cost) -> Decision {
        let refusal =
            self.with_waiters(hash, |queue, clock| queue.refusal(&self.states, cost, clock));
        let check = || self.states.check_locked(hash, &|| self.now(), cost);
        refusal.flatten().map_or_else(check, |(decision, _)| decision)
    }

    pub(crate) fn reserve(&self, hash: u64, cost: Cost, within: Duration) -> Reservation {
        let outcome = if self.shared.queues.are_empty_for(hash) {
            self.states.reserve(hash, &|| self.now(), cost, within)
        } else {
            self.take(hash, cost, within)
        };
        let at = outcome.1.map(|charged| charged.charge.at);
        let delay = at.map_or(Duration::ZERO, |at| at.saturating_since(self.now()));
        self.reservation(hash, outcome, delay, cost.get())
    }

    /// Charges as many permits as fit now, at most `most`, unless waiters come first.
    pub(crate) fn take_up_to(&self, hash: u64, most: Cost) -> Reservation {
        let refusal =
            self.with_waiters(hash, |queue, clock| queue.refusal(&self.states, Cost::ONE, clock));
        let take = || self.states.take_some(hash, &|| self.now(), Taking::UpTo, most);
        let outcome = refusal.flatten().unwrap_or_else(take);
        let uncounted = most.get().min(outcome.0.remaining());
        self.reservation(hash, outcome, Duration::ZERO, uncounted)
    }

    /// Charges `cost` whether or not it fits, also if there are waiters.
    pub(crate) fn charge(&self, hash: u64, cost: Cost) -> Reservation {
        let charge = |clock: Now<'_>| self.states.take_some(hash, clock, Taking::InAnyCase, cost);
        let outcome = self.change(hash, charge);
        let is_counted = outcome.0.source() != Source::FullTable;
        let uncounted = if is_counted { 0 } else { cost.get() };
        self.reservation(hash, outcome, Duration::ZERO, uncounted)
    }

    /// Charges `cost` if it fits at `now`, which was just read, with a receipt.
    pub(crate) fn reserve_at(&self, hash: u64, now: Timestamp, cost: Cost) -> Outcome {
        let may_pass = self.shared.queues.are_empty_for(hash);
        let outcome = may_pass.then(|| self.states.reserve_now(hash, now, cost)).flatten();
        outcome.unwrap_or_else(|| self.take(hash, cost, Duration::ZERO))
    }

    /// Returns the decision on `cost` at `now`, which was just read, and charges nothing.
    pub(crate) fn preview_at(&self, hash: u64, now: Timestamp, cost: Cost) -> Decision {
        let may_pass = self.shared.queues.are_empty_for(hash);
        let decision = may_pass.then(|| self.states.preview_now(hash, now, cost)).flatten();
        decision.unwrap_or_else(|| self.preview(hash, cost))
    }

    /// Counts a refusal because the table is full.
    pub(crate) fn count_full(&self, decision: &Decision) {
        if !decision.is_admitted() && decision.source() == Source::FullTable {
            self.states.count_full();
        }
    }

    /// Charges `cost` if it fits now or up to `within` later, unless waiters come first.
    #[inline(never)]
    fn take(&self, hash: u64, cost: Cost, within: Duration) -> Outcome {
        let refusal =
            self.with_waiters(hash, |queue, clock| queue.refusal(&self.states, cost, clock));
        let take = || self.states.take(hash, &|| self.now(), None, cost, within);
        refusal.flatten().unwrap_or_else(take)
    }

    /// Returns what an outcome means to the caller: if it is an admission without a charge, that of so many
    /// permits.
    pub(crate) fn reservation(
        &self,
        hash: u64,
        (decision, charged): Outcome,
        delay: Duration,
        uncounted: u64,
    ) -> Reservation {
        let Some(charged) = charged else {
            return match decision.is_admitted() {
                true => Reservation::uncounted(decision, uncounted),
                false => Reservation::refused(decision),
            };
        };
        Reservation::admitted(decision, delay, self.receipt(hash, charged))
    }

    pub(crate) fn receipt(&self, hash: u64, charged: Charged) -> Receipt {
        let policy = self.states.policy.clone();
        let taken = Taken { limiter: self.shared.id, hash, policy, charged };
        Receipt::of_memory(taken, charged.charge.cost.get())
    }

    /// Refunds a charge of this handle at once.
    pub(crate) fn give_back(&self, hash: u64, charged: &Charged) {
        let permits = charged.charge.cost.get();
        self.change(hash, |clock| self.states.refund(hash, clock, charged, permits));
    }

    pub(crate) fn peek(&self, hash: u64) -> Usage {
        self.with_waiters(hash, |_, _| ());
        self.states.usage(hash, &|| self.now())
    }

    pub(crate) fn preview(&self, hash: u64, cost: Cost) -> Decision {
        let refusal =
            self.with_waiters(hash, |queue, clock| queue.refusal(&self.states, cost, clock));
        let decide = || self.states.preview(hash, &|| self.now(), cost);
        refusal.flatten().map_or_else(decide, |(decision, _)| decision)
    }

    pub(crate) fn refund(&self, receipt: &Receipt) -> u64 {
        let taken = receipt.taken().filter(|taken| taken.limiter == self.shared.id);
        let refund = |Taken { hash, policy, charged, .. }: &Taken| {
            // Known to the limiter, because it has charged.
            let states = self.states.with_policy(policy).ok()?;
            let refund = |clock: Now<'_>| states.refund(*hash, clock, charged, receipt.permits());
            Some(self.change(*hash, refund))
        };
        taken.and_then(refund).unwrap_or(0)
    }

    pub(crate) fn reset(&self, hash: u64) {
        self.change(hash, |clock| self.states.reset(hash, clock));
    }

    /// Changes a state from outside of the queue, whose waiters are charged before, and see it.
    fn change<R>(&self, hash: u64, change: impl FnOnce(Now<'_>) -> R) -> R {
        self.with_waiters(hash, |_, _| ());
        let result = change(&|| self.now());
        // A waiter that reads the state before this change is found by it.
        fence(Ordering::SeqCst);
        self.with_waiters(hash, Queue::changed);
        result
    }

    /// Operates on the queue of a key if there is one, after its waiters that are due were charged.
    fn with_waiters<R>(
        &self,
        hash: u64,
        operate: impl FnOnce(&mut Queue, Now<'_>) -> R,
    ) -> Option<R> {
        self.shared.queues.has(hash).then(|| self.with_queue(hash, operate))
    }

    /// Operates on the queue of a key, after its waiters that are due were charged.
    pub(crate) fn with_queue<R>(
        &self,
        hash: u64,
        operate: impl FnOnce(&mut Queue, Now<'_>) -> R,
    ) -> R {
        self.shared.queues.with(hash, &|| self.present(), operate)
    }

    /// Returns whether states count in Unix time.
    pub(crate) fn reads_unix_time(&self) -> bool {
        self.shared.unix_time
    }

    /// Returns the present as the states count it.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        let Shared { clock, unix_time, .. } = &*self.shared;
        if *unix_time { clock.unix_time() } else { clock.now() }
    }

    /// Returns the present by both times.
    pub(crate) fn present(&self) -> Present {
        let now = self.now();
        let monotonic = if self.shared.unix_time { self.shared.clock.now() } else { now };
        Present { now, monotonic }
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), states: self.states.clone() }
    }
}
