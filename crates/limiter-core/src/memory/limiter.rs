//! The limiter for one process.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    debts::Debts,
    key_hasher::KeyHasher,
    states::Outcome,
    tables::{Limits, Room, Tables},
    waiters::{Queue, Queues},
};
use crate::{
    Clock, Cost, Decision, Policy, Receipt, Reservation, SystemClock, Timestamp,
    algorithms::{AnyTransition, KeyStates},
    charge::{Charge, Charged},
    receipt::Taken,
    sync::{Bounded, Ordering, fence},
};

/// A limiter that keeps its states in this process's memory.
///
/// Its memory is bounded by its capacity, it needs no background thread, and it is correct under
/// threads: no permit is admitted twice. Clones and [handles](Self::with_policy) share one set of
/// states.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(2)));
/// assert!(limiter.check("alice").is_admitted());
/// assert!(limiter.check("alice").is_admitted());
/// assert!(!limiter.check("alice").is_admitted());
/// assert!(limiter.check("bob").is_admitted());
/// ```
///
/// # Waiting
///
/// [`acquire`](Self::acquire) waits for permits. Waiters for one key are served in the order in which
/// they came, and while there are waiters, `check` and `reserve` are refused. A waiter is charged for
/// the moment at which it is due, however late its timer fires. A task that asks for one permit after
/// the other asks later than that: with tokio's timer, which counts in milliseconds, it gets the whole
/// rate only if the burst lasts for two milliseconds or more. With a [`SystemClock`], waiting as a
/// future needs the feature `tokio`; [`acquire_blocking`](Self::acquire_blocking) needs nothing.
///
/// # Hashes of keys
///
/// A key is stored as its hash of 64 bits, by foldhash under a seed of the limiter's own. Two keys with
/// one hash share one debt and one queue of waiters, and a reset of one resets the other. Without resets,
/// they never get more permits together than apart: a client gains nothing from two colliding keys of its
/// own. But a client whose key collides with another client's can use up that client's permits.
///
/// Each part of a key is hashed with its kind and its length, in order. The seed differs between limiters and between
/// starts of the program, so nobody can prepare colliding keys without it. But foldhash is not a cryptographic hash: the
/// seed can be computed from hashes, which are never printed, and perhaps from measured times. If clients choose their
/// keys and you have to rule that out, set [another hasher](crate::Builder::hasher), such as the standard library's,
/// which is SipHash.
pub struct MemoryLimiter<C = SystemClock> {
    pub(super) shared: Arc<Shared<C>>,
    pub(super) limits: Limits,
    pub(super) hasher: KeyHasher,
}

/// What all handles of a limiter share.
pub(super) struct Shared<C> {
    pub(super) tables: Tables,
    queues: Queues,
    /// How many waiters there are.
    pub(super) waiting: Bounded,
    /// That of the tables, by its type.
    pub(super) clock: Arc<C>,
}

impl<C: Clock> MemoryLimiter<C> {
    pub(super) fn of(tables: Tables, policy: &Policy, hasher: KeyHasher, clock: Arc<C>) -> Self {
        let Room { keys, max_waiting, .. } = tables.room;
        let (queues, waiting) = (Queues::new(keys), Bounded::new(max_waiting));
        Self::handle(Arc::new(Shared { tables, queues, waiting, clock }), policy, hasher)
    }

    /// Returns a handle, under whose policy its limiter resets keys from now on.
    pub(super) fn handle(shared: Arc<Shared<C>>, policy: &Policy, hasher: KeyHasher) -> Self {
        let limits = Limits::new(policy, &shared.tables, &hasher);
        shared.tables.add(&limits);
        Self { shared, limits, hasher }
    }

    pub(super) fn sibling_of(&self, policy: &Policy, keys: usize) -> Self {
        let Shared { tables: Tables { id, room, clock: of_states, .. }, clock, .. } = &*self.shared;
        let room = Room { keys, ..*room };
        let tables = Tables::new(id.sibling(), policy, room, Arc::clone(of_states));
        Self::of(tables, policy, self.hasher.sibling(), Arc::clone(clock))
    }

    /// Charges `cost` to a key if it fits now.
    #[inline(never)]
    pub(super) fn check_hash(&self, key: u64, cost: Cost) -> Decision {
        match self.check_without_lock(key, cost) {
            Some((decision, _)) => decision,
            None => self.check_slow_path(key, cost),
        }
    }

    /// Charges `cost` to a key if it fits now or up to `within` later, and returns the delay.
    pub(super) fn reserve_hash(&self, key: u64, cost: Cost, within: Duration) -> Reservation {
        let epoch = self.shared.tables.epoch();
        match self.check_without_lock(key, cost) {
            Some((decision, charge)) if decision.is_admitted() => {
                let charged = Charged { charges: charge.into(), epoch };
                Reservation::admitted(decision, Duration::ZERO, self.receipt(key, charged))
            }
            Some((decision, _)) if within.is_zero() => Reservation::refused(decision),
            _ => self.reservation(key, self.take(key, cost, within), cost.get()),
        }
    }

    /// Charges `cost` to a key if it fits now, by GCRA in the common case: the key has a slot, and nobody waits. Returns
    /// the decision and the charge if it is an admission, or `None` in any other case.
    #[inline(always)]
    fn check_without_lock(&self, key: u64, cost: Cost) -> Option<(Decision, Charge)> {
        let Shared { tables, queues, clock, .. } = &*self.shared;
        let [(AnyTransition::Gcra(gcra), salt)] = &*self.limits.salted else { return None };
        if !queues.are_empty_for(key) {
            return None;
        }
        let (words, now) = (tables.words.get()?, tables.now(&**clock));
        let (decision, mark) = words.check(gcra, key ^ salt, now, cost)?;
        Some((decision, Charge { made: now, at: now, cost, mark }))
    }

    /// Does what [`check_hash`](Self::check_hash) does in every case. Apart from [`take`](Self::take), because that moves
    /// what was charged: the first check of a key would take a third longer.
    #[inline(never)]
    fn check_slow_path(&self, key: u64, cost: Cost) -> Decision {
        let mut debts = Debts::default();
        if let Some((decision, _)) = self.take_debts(&mut debts, key, cost) {
            return decision;
        }
        if let Some(refusal) = self.refusal(key, cost) {
            return refusal.decision;
        }
        let take = |states: &mut KeyStates<'_, '_>| states.take(cost, Duration::ZERO);
        let decision = self.tables().operate(&self.limits, key, None, take);
        self.tables().count_if_full(&decision);
        decision
    }

    /// Charges `cost` to a key if it fits now or up to `within` later, in every case.
    #[inline(never)]
    fn take(&self, key: u64, cost: Cost, within: Duration) -> Outcome {
        let mut debts = Debts::default();
        match self.take_debts(&mut debts, key, cost) {
            Some((decision, now)) if decision.is_admitted() || within.is_zero() => {
                Outcome { decision, now, charged: debts.charged(0..self.limits.salted.len()) }
            }
            _ => {
                let take = || self.tables().take(&self.limits, key, None, cost, within);
                self.refusal(key, cost).unwrap_or_else(take)
            }
        }
    }

    /// Charges `cost` to a key if it fits now, by several limits by GCRA in the common case.
    #[inline]
    fn take_debts<'a>(
        &'a self,
        debts: &mut Debts<'a>,
        key: u64,
        cost: Cost,
    ) -> Option<(Decision, Timestamp)> {
        if self.limits.salted.len() < 2 {
            return None;
        }
        self.add_to(debts, key, cost, Some(cost))?;
        let now = debts.charge()?;
        Some((debts.decision(0..self.limits.salted.len()), now))
    }

    /// Reads the debts of a key without a lock, or returns `None` where that takes one, or if somebody waits.
    #[inline]
    pub(super) fn add_to<'a>(
        &'a self,
        debts: &mut Debts<'a>,
        key: u64,
        cost: Cost,
        charge: Option<Cost>,
    ) -> Option<()> {
        if !self.shared.queues.are_empty_for(key) {
            return None;
        }
        for (transition, salt) in &self.limits.salted {
            debts.add(self.tables().place(transition, key ^ salt), cost, charge)?;
        }
        Some(())
    }

    /// Returns the refusal of a request that has to wait behind waiters, if there are any.
    pub(super) fn refusal(&self, key: u64, cost: Cost) -> Option<Outcome> {
        self.with_waiters(key, |queue| queue.refusal(&self.limits, cost, self.tables())).flatten()
    }

    /// Returns what an outcome means to the caller: if it is an admission without a charge, that of so many permits.
    pub(super) fn reservation(&self, key: u64, outcome: Outcome, uncounted: u64) -> Reservation {
        let Outcome { decision, now, charged } = outcome;
        match charged {
            Some(charged) => {
                let delay = charged.charges.at().saturating_since(now);
                Reservation::admitted(decision, delay, self.receipt(key, charged))
            }
            None if decision.is_admitted() => Reservation::uncounted(decision, uncounted),
            None => Reservation::refused(decision),
        }
    }

    /// Returns the receipt of what was charged to a key.
    #[inline]
    pub(super) fn receipt(&self, key: u64, charged: Charged) -> Receipt {
        let (limiter, policy) = (self.shared.tables.id, self.limits.policy.clone());
        Receipt::of_memory(Taken { limiter, key, policy, charged })
    }

    /// Changes a state from outside of the queue, whose waiters are charged before, and see it.
    pub(super) fn change<R>(&self, key: u64, change: impl FnOnce(&Tables) -> R) -> R {
        self.with_waiters(key, |_| ());
        let result = change(self.tables());
        // A waiter that reads the state before this change is found by it.
        fence(Ordering::SeqCst);
        self.with_waiters(key, |queue| queue.changed(self.tables()));
        result
    }

    /// Operates on the queue of a key if there is one, after its waiters that are due were charged.
    pub(super) fn with_waiters<R>(
        &self,
        key: u64,
        operate: impl FnOnce(&mut Queue) -> R,
    ) -> Option<R> {
        self.shared.queues.has(key).then(|| self.with_queue(key, operate))
    }

    /// Operates on the queue of a key, after its waiters that are due were charged.
    pub(super) fn with_queue<R>(&self, key: u64, operate: impl FnOnce(&mut Queue) -> R) -> R {
        self.shared.queues.with(key, self.tables(), operate)
    }

    /// Returns the limiter's states.
    #[inline]
    pub(super) fn tables(&self) -> &Tables {
        &self.shared.tables
    }
}

impl<C> Clone for MemoryLimiter<C> {
    fn clone(&self) -> Self {
        let Self { shared, limits, hasher } = self;
        Self { shared: Arc::clone(shared), limits: limits.clone(), hasher: hasher.clone() }
    }
}

impl<C> fmt::Debug for MemoryLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimiter").field("policy", &self.limits.policy).finish_non_exhaustive()
    }
}
