//! Every operation of the limiter, by the hash of a key.

use core::time::Duration;
use std::sync::Arc;

use crate::{
    Clock, Cost, Decision, Error, LimiterId, Policy, Receipt, Reservation, Source, Timestamp,
    Usage,
    charge::Charged,
    memory::{
        KeyHasher,
        present::{Now, Present},
        salts::Salts,
        states::{Outcome, States},
        tables::Room,
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
    hasher: KeyHasher,
    queues: Queues,
    salts: Salts,
    waiting: Bounded,
    /// Shared with siblings.
    clock: Arc<C>,
    room: Room,
    /// Whether states count in Unix time.
    unix_time: bool,
}

impl<C: Clock> Handle<C> {
    /// Returns a handle on the states of a new limiter.
    pub(crate) fn new(
        id: LimiterId,
        policy: &Policy,
        hasher: KeyHasher,
        room: Room,
        clock: Arc<C>,
    ) -> Self {
        let states = States::new(policy, &hasher, room);
        let (queues, unix_time) = (Queues::new(room.keys), states.policy.reads_unix_time());
        let waiting = Bounded::new(room.max_waiting);
        let salts = Salts::default();
        states.salts().for_each(|salt| salts.add(salt));
        let shared = Shared { id, hasher, queues, salts, waiting, clock, room, unix_time };
        Self { shared: Arc::new(shared), states }
    }

    /// Returns a handle on other states, of a limiter with the same clock and room for so many keys.
    pub(crate) fn sibling(&self, policy: &Policy, hasher: KeyHasher, keys: usize) -> Self {
        let Shared { id, clock, room, .. } = &*self.shared;
        let room = Room { keys, ..*room };
        Self::new(id.sibling(), policy, hasher, room, Arc::clone(clock))
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
        let states = self.states.with_policy(policy, &self.shared.hasher)?;
        states.salts().for_each(|salt| self.shared.salts.add(salt));
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
        let check = || self.states.check_locked(hash, &|| self.now(), cost);
        self.refusal(hash, cost).unwrap_or_else(check)
    }

    pub(crate) fn reserve(&self, hash: u64, cost: Cost, within: Duration) -> Reservation {
        let outcome = self.decide(hash, cost, within);
        let at = outcome.1.as_ref().map(|charged| charged.charge.at);
        let delay = at.map_or(Duration::ZERO, |at| at.saturating_since(self.now()));
        self.reservation(hash, outcome, delay, cost.get())
    }

    /// Charges `cost` if it fits now or up to `within` later, unless waiters come first.
    pub(crate) fn decide(&self, hash: u64, cost: Cost, within: Duration) -> Outcome {
        match self.shared.queues.are_empty_for(hash) {
            true => self.states.reserve(hash, &|| self.now(), cost, within),
            false => self.take(hash, cost, within),
        }
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

    /// Returns the refusal of a request that has to wait behind waiters, if there are any.
    pub(crate) fn refusal(&self, hash: u64, cost: Cost) -> Option<Decision> {
        let refusal =
            self.with_waiters(hash, |queue, clock| queue.refusal(&self.states, cost, clock));
        refusal.flatten().map(|(decision, _)| decision)
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
        let (policy, permits) = (self.states.policy.clone(), charged.charge.cost.get());
        let taken = Taken { limiter: self.shared.id, hash, policy, charged };
        Receipt::of_memory(taken, permits)
    }

    pub(crate) fn peek(&self, hash: u64) -> Usage {
        self.with_waiters(hash, |_, _| ());
        self.states.usage(hash, &|| self.now())
    }

    pub(crate) fn preview(&self, hash: u64, cost: Cost) -> Decision {
        let decide = || self.states.preview(hash, &|| self.now(), cost);
        self.refusal(hash, cost).unwrap_or_else(decide)
    }

    pub(crate) fn refund(&self, receipt: &Receipt) -> u64 {
        let taken = receipt.taken().filter(|taken| taken.limiter == self.shared.id);
        let refund = |Taken { hash, policy, charged, .. }: &Taken| {
            // Known to the limiter, because it has charged.
            let states = self.states.with_policy(policy, &self.shared.hasher).ok()?;
            let refund = |clock: Now<'_>| states.refund(*hash, clock, charged, receipt.permits());
            Some(self.change(*hash, refund))
        };
        taken.and_then(refund).unwrap_or(0)
    }

    /// Makes a key fresh under this policy and those of the other handles.
    pub(crate) fn reset(&self, hash: u64) {
        self.change(hash, |clock| {
            let reset = |salt| self.states.reset(hash, salt, clock);
            self.shared.salts.for_each_and(self.states.salts(), reset);
        });
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
