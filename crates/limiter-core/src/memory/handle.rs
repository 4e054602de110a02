//! A handle on a limiter's states under one policy, with every operation.

use alloc::sync::Arc;
use core::{fmt, sync::atomic::AtomicU64, time::Duration};

use super::{
    queue::{Queue, Queues, Target},
    states::{Bound, States, Taken},
    word::{Outcome, When},
};
use crate::{
    Clock, Cost, Decision, Error, Policy, Receipt, Reservation, Timestamp, Usage,
    algorithm::State,
    sync::{Ordering, fence},
};

/// A handle on a limiter's states under one policy.
pub(super) struct Handle<C> {
    shared: Arc<Shared<C>>,
    bound: Arc<Bound>,
}

/// What all handles of a limiter share.
struct Shared<C> {
    /// Separates this limiter's receipts from those of others.
    id: u64,
    /// Its families are those of the states.
    policy: Policy,
    states: States,
    queues: Queues,
    clock: C,
    /// Whether states count in Unix time.
    unix_time: bool,
}

impl<C: Clock> Handle<C> {
    pub(super) fn new((states, bound): (States, Bound), clock: C) -> Self {
        static LIMITERS: AtomicU64 = AtomicU64::new(0);
        let shared = Shared {
            id: LIMITERS.fetch_add(1, Ordering::Relaxed),
            policy: bound.policy.clone(),
            states,
            queues: Queues::new(),
            clock,
            unix_time: bound.policy.reads_unix_time(),
        };
        Self { shared: Arc::new(shared), bound: Arc::new(bound) }
    }

    pub(super) fn clock(&self) -> &C {
        &self.shared.clock
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.bound.policy
    }

    pub(super) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        let Shared { policy: own, states, .. } = &*self.shared;
        own.check_families(policy)?;
        let bound = Arc::new(states.bind(&self.bound, policy.clone(), self.now())?);
        Ok(Self { shared: Arc::clone(&self.shared), bound })
    }

    #[inline(never)]
    pub(super) fn check(&self, hash: u64, cost: Cost) -> Decision {
        let Shared { states, queues, .. } = &*self.shared;
        if queues.are_empty_for(hash) {
            return states.check(hash, &self.bound, &|| self.now(), cost);
        }
        self.take_behind_waiters(hash, cost, Duration::ZERO).0
    }

    pub(super) fn reserve(&self, hash: u64, cost: Cost, within: Duration) -> Reservation {
        let outcome = self.take_behind_waiters(hash, cost, within);
        let at = outcome.1.map(|charge| charge.at);
        let delay = at.map_or(Duration::ZERO, |at| at.saturating_since(self.now()));
        self.reservation(hash, outcome, delay)
    }

    /// Charges `cost`, unless waiters come first.
    #[cold]
    fn take_behind_waiters(&self, hash: u64, cost: Cost, within: Duration) -> Outcome {
        let refusal = self.with_waiters(hash, |queue, target| {
            queue.has_waiters().then(|| queue.refusal(target, &self.bound, cost))
        });
        let Shared { states, .. } = &*self.shared;
        let reserve = || states.reserve(hash, &self.bound, &|| self.now(), cost, within);
        refusal.flatten().unwrap_or_else(reserve)
    }

    /// Returns what an outcome means to the caller.
    pub(super) fn reservation(
        &self,
        hash: u64,
        (decision, charge): Outcome,
        delay: Duration,
    ) -> Reservation {
        let Some(charge) = charge else {
            return Reservation::refused(decision);
        };
        let bound = Arc::clone(&self.bound);
        let taken = Taken { limiter: self.shared.id, hash, bound, charge };
        Reservation::admitted(decision, delay, Receipt::of_memory(taken, charge.cost.get()))
    }

    pub(super) fn peek(&self, hash: u64) -> Usage {
        self.with_waiters(hash, |_, _| ());
        self.shared.states.peek(hash, &self.bound, When::now(&|| self.now()))
    }

    pub(super) fn refund(&self, receipt: &Receipt) -> u64 {
        let taken = receipt.taken().filter(|taken| taken.limiter == self.shared.id);
        taken.map_or(0, |Taken { hash, bound, charge, .. }| {
            self.change(*hash, |states, when| {
                states.give_back(*hash, bound, when, charge, receipt.permits())
            })
        })
    }

    pub(super) fn reset(&self, hash: u64) {
        self.change(hash, |states, when| {
            states.change(hash, &self.bound, when, &mut |state, _| *state = State::Fresh);
        });
    }

    /// Changes a state from outside of the queue, whose waiters are charged before, and see it.
    fn change<R>(&self, hash: u64, change: impl Fn(&States, When<'_>) -> R) -> R {
        self.with_waiters(hash, |_, _| ());
        let result = change(&self.shared.states, When::now(&|| self.now()));
        // A waiter that reads the state before this change is found by it.
        fence(Ordering::SeqCst);
        self.with_waiters(hash, Queue::changed);
        result
    }

    /// Operates on the queue of a key if there is one, after its waiters that are due were charged.
    fn with_waiters<R>(
        &self,
        hash: u64,
        operate: impl FnOnce(&mut Queue, &mut Target<'_>) -> R,
    ) -> Option<R> {
        self.shared.queues.has(hash).then(|| self.with_queue(hash, operate))
    }

    /// Operates on the queue of a key, after its waiters that are due were charged.
    pub(super) fn with_queue<R>(
        &self,
        hash: u64,
        operate: impl FnOnce(&mut Queue, &mut Target<'_>) -> R,
    ) -> R {
        self.shared.queues.with(&self.shared.states, hash, &|| self.now(), operate)
    }

    /// The policy of the handle, for a waiter.
    pub(super) fn bound(&self) -> &Arc<Bound> {
        &self.bound
    }

    /// Returns the present as the states count it.
    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        let Shared { clock, unix_time, .. } = &*self.shared;
        if *unix_time { clock.unix_time() } else { clock.now() }
    }

    /// Returns a moment of the states' time by the clock's time.
    pub(super) fn by_the_clock(&self, moment: Timestamp) -> Timestamp {
        if self.shared.unix_time {
            self.shared.clock.now().saturating_add(moment.saturating_since(self.now()))
        } else {
            moment
        }
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), bound: Arc::clone(&self.bound) }
    }
}

impl<C> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("policy", &self.bound.policy)
            .field("states", &self.shared.states)
            .finish_non_exhaustive()
    }
}
