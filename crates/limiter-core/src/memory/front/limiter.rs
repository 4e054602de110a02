//! The limiter for one process.

use std::{fmt, ops::Range, sync::Arc, time::Duration};

use crate::{
    Clock, Cost, Decision, Key, Policy, Receipt, Reservation, SystemClock,
    algorithms::KeyStates,
    charge::{Charge, Charged},
    memory::{
        KeyHasher,
        debts::Debts,
        salts::Salts,
        states::{Outcome, States},
        tables::{Limits, Room, Store, Tables},
        waiters::{Queue, Queues},
    },
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
    pub(super) salts: Salts,
    /// Shared with siblings.
    pub(super) clock: Arc<C>,
}

impl<C: Clock> MemoryLimiter<C> {
    pub(super) fn of(tables: Tables, policy: &Policy, hasher: KeyHasher, clock: Arc<C>) -> Self {
        let Room { keys, max_waiting, .. } = tables.room;
        let (queues, waiting) = (Queues::new(keys), Bounded::new(max_waiting));
        let limits = Limits::new(policy, &tables, &hasher);
        let shared = Shared { tables, queues, waiting, salts: Salts::default(), clock };
        Self { shared: Arc::new(shared), limits, hasher }.known()
    }

    /// Returns the handle, under whose policy its limiter resets keys from now on.
    pub(super) fn known(self) -> Self {
        self.shared.tables.add(&self.limits.policy);
        self.limits.salted.iter().for_each(|(_, salt)| self.shared.salts.add(*salt));
        self
    }

    pub(super) fn sibling_of(&self, policy: &Policy, keys: usize) -> Self {
        let Shared { tables, clock, .. } = &*self.shared;
        let tables = Tables::new(tables.id.sibling(), policy, Room { keys, ..tables.room });
        Self::of(tables, policy, self.hasher.sibling(), Arc::clone(clock))
    }

    /// Returns whether a cost would be admitted, and charges nothing.
    pub(super) fn preview<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Decision {
        let key = self.hasher.hash(&key.into());
        let preview = || {
            let decide = |states: &mut KeyStates<'_, '_>| states.decision(cost, states.wait(cost));
            self.states().operate(&self.limits, key, None, decide)
        };
        self.refusal(key, cost).map_or_else(preview, |refusal| refusal.decision)
    }

    /// Charges `cost` to a key if it fits now.
    #[inline(never)]
    pub(super) fn check_hash(&self, key: u64, cost: Cost) -> Decision {
        match self.check_without_lock(key, cost) {
            Some((decision, _)) => decision,
            None => self.check_slow_path(key, cost),
        }
    }

    #[inline(never)]
    fn check_slow_path(&self, key: u64, cost: Cost) -> Decision {
        let mut debts = Debts::default();
        if let Some(limits) = self.charge_debts(&mut debts, key, cost) {
            return debts.decision(limits);
        }
        if let Some(refusal) = self.refusal(key, cost) {
            return refusal.decision;
        }
        let take = |states: &mut KeyStates<'_, '_>| states.take(cost, Duration::ZERO);
        let decision = self.states().operate(&self.limits, key, None, take);
        self.shared.tables.count_if_full(&decision);
        decision
    }

    /// Charges `cost` to a key if it fits now or up to `within` later, and returns the delay.
    pub(super) fn reserve_hash(&self, key: u64, cost: Cost, within: Duration) -> Reservation {
        let epoch = self.shared.tables.epoch.get();
        match self.check_without_lock(key, cost) {
            Some((decision, charge)) if decision.is_admitted() => {
                let charged = Charged { charges: charge.into(), epoch };
                Reservation::admitted(decision, Duration::ZERO, self.receipt(key, charged))
            }
            Some((decision, _)) if within.is_zero() => Reservation::refused(decision),
            _ => self.reserve_slow_path(key, cost, within),
        }
    }

    #[inline(never)]
    fn reserve_slow_path(&self, key: u64, cost: Cost, within: Duration) -> Reservation {
        let mut debts = Debts::default();
        if let Some(limits) = self.charge_debts(&mut debts, key, cost) {
            let decision = debts.decision(limits.clone());
            match debts.charged(limits) {
                Some(charged) => {
                    let receipt = self.receipt(key, charged);
                    return Reservation::admitted(decision, Duration::ZERO, receipt);
                }
                None if within.is_zero() => return Reservation::refused(decision),
                None => {}
            }
        }
        let take = || self.states().take(&self.limits, key, None, cost, within);
        let outcome = self.refusal(key, cost).unwrap_or_else(take);
        self.reservation(key, outcome, cost.get())
    }

    /// Charges `cost` to a key if it fits now, by GCRA in the common case: the key has a slot, and nobody waits. Returns
    /// the decision and the charge if it is an admission, or `None` in any other case.
    #[inline(always)]
    fn check_without_lock(&self, key: u64, cost: Cost) -> Option<(Decision, Charge)> {
        let Shared { tables, queues, clock, .. } = &*self.shared;
        let [(transition, salt)] = self.limits.salted.as_slice() else { return None };
        let Some(Store::Words(words, gcra)) = tables.store(transition) else { return None };
        if !queues.are_empty_for(key) {
            return None;
        }
        let now = tables.now(clock);
        let (decision, mark) = words.check(gcra, key ^ salt, now, cost)?;
        Some((decision, Charge { made: now, at: now, cost, mark }))
    }

    /// Does what [`check_without_lock`](Self::check_without_lock) does for several limits, and returns their range.
    #[inline]
    fn charge_debts<'a>(
        &'a self,
        debts: &mut Debts<'a>,
        key: u64,
        cost: Cost,
    ) -> Option<Range<usize>> {
        if self.limits.salted.len() < 2 {
            return None;
        }
        self.add_to(debts, key, cost, Some(cost))?;
        debts.charge()?;
        Some(0..self.limits.salted.len())
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
        if !self.limits.are_debts() || !self.shared.queues.are_empty_for(key) {
            return None;
        }
        let states = self.states();
        for (transition, salt) in &self.limits.salted {
            debts.add(states.place(transition, key ^ salt), cost, charge)?;
        }
        Some(())
    }

    /// Returns the refusal of a request that has to wait behind waiters, if there are any.
    pub(super) fn refusal(&self, key: u64, cost: Cost) -> Option<Outcome> {
        self.with_waiters(key, |queue| queue.refusal(&self.limits, cost, self.states())).flatten()
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
    pub(super) fn change<R>(&self, key: u64, change: impl FnOnce(States<'_>) -> R) -> R {
        self.with_waiters(key, |_| ());
        let result = change(self.states());
        // A waiter that reads the state before this change is found by it.
        fence(Ordering::SeqCst);
        self.with_waiters(key, |queue| queue.changed(self.states()));
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
        self.shared.queues.with(key, self.states(), operate)
    }

    /// Returns the limiter's states.
    pub(super) fn states(&self) -> States<'_> {
        States { tables: &self.shared.tables, clock: &*self.shared.clock }
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
