//! The states of a limiter under a policy, one for each limit, in two tables.

use std::{fmt, sync::Arc, time::Duration};

use smallvec::SmallVec;

use super::{
    KeyHasher,
    full::Full,
    present::Now,
    tables::{Room, Store, Tables},
    taking::Taking,
    words::OwnSlot,
};
use crate::{
    Cost, Decision, Error, Policy, Source, Timestamp, Usage,
    algorithms::{AnyTransition, Gcra, State, Tat, Transition},
    charge::{Charge, Charged},
};

/// The states of a limiter under one policy, by the hash of the key. A clone has the same states.
#[derive(Clone)]
pub(crate) struct States {
    pub(crate) policy: Policy,
    /// In the order of the policy's limits.
    pub(super) limits: SmallVec<[LimitStates; 1]>,
    tables: Arc<Tables>,
}

/// The states of one limit.
#[derive(Clone)]
pub(super) struct LimitStates {
    pub(super) transition: AnyTransition,
    /// What the hash of a key is combined with. Limits of the same identity have the same salt.
    pub(super) salt: u64,
}

/// A decision, and what was charged by it.
pub(crate) type Outcome = (Decision, Option<Charged>);

impl States {
    pub(crate) fn new(policy: &Policy, hasher: &KeyHasher, room: Room) -> Self {
        Self::of(policy, hasher, Arc::new(Tables::new(room)))
    }

    /// Returns the states under another policy.
    #[inline]
    pub(crate) fn with_policy(&self, policy: &Policy, hasher: &KeyHasher) -> Result<Self, Error> {
        self.policy.check_families(policy)?;
        Ok(Self::of(policy, hasher, Arc::clone(&self.tables)))
    }

    fn of(policy: &Policy, hasher: &KeyHasher, tables: Arc<Tables>) -> Self {
        let limits = policy.transitions().iter().zip(policy.identities());
        let limits = limits.map(|(transition, identity)| LimitStates {
            transition: transition.clone(),
            salt: hasher.salt(identity),
        });
        let states = Self { policy: policy.clone(), limits: limits.collect(), tables };
        for limit in &states.limits {
            match states.store(limit) {
                Store::Words(words, gcra) => words.add(gcra),
                Store::Table(table, transition) => table.add(transition),
            }
        }
        states
    }

    #[inline]
    fn store<'a>(&'a self, limit: &'a LimitStates) -> Store<'a> {
        self.tables.store(&limit.transition, &self.policy)
    }

    /// Returns the salts of the policy's limits.
    pub(crate) fn salts(&self) -> impl Iterator<Item = u64> {
        self.limits.iter().map(|limit| limit.salt)
    }

    /// Returns the number of times that an impossible state was replaced.
    pub(crate) fn epoch(&self) -> u64 {
        let (words, table) = self.tables.made();
        let words = words.map_or(0, |words| words.epoch.get());
        words.wrapping_add(table.map_or(0, |table| table.epoch.get()))
    }

    /// Charges `cost` if it fits now, or returns `None` where that takes a lock.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        key: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
    ) -> Option<Decision> {
        let [limit] = self.limits.as_slice() else { return None };
        let Store::Words(words, gcra) = self.store(limit) else { return None };
        words.check(gcra, key ^ limit.salt, clock(), cost).map(|(decision, _)| decision)
    }

    /// Charges `cost` if it fits now.
    ///
    /// Apart from [`take`](Self::take), which also makes the receipt that only a reservation needs.
    pub(crate) fn check_locked(&self, key: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let [limit] = self.limits.as_slice() else {
            return self.take(key, clock, None, cost, Duration::ZERO).0;
        };
        let decided = self.with(limit, key, clock, None, |state, now| {
            limit.transition.decide(state, now, cost, Duration::ZERO).0
        });
        decided.unwrap_or_else(|full| self.decide_without_state(limit, &full, cost))
    }

    /// Charges `cost` if it fits now or up to `within` later.
    pub(crate) fn reserve(
        &self,
        key: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        match self.reserve_now(key, clock(), cost) {
            Some(outcome) if outcome.0.is_admitted() || within.is_zero() => outcome,
            _ => self.take(key, clock, None, cost, within),
        }
    }

    /// Charges `cost` if it fits at `now`, or returns `None` where that takes a lock.
    pub(crate) fn reserve_now(&self, key: u64, now: Timestamp, cost: Cost) -> Option<Outcome> {
        let [limit] = self.limits.as_slice() else { return None };
        let Store::Words(words, gcra) = self.store(limit) else { return None };
        let epoch = self.epoch();
        let (decision, tat) = words.check(gcra, key ^ limit.salt, now, cost)?;
        let charge = Charge { made: now, at: now, cost, mark: tat };
        Some((decision, decision.is_admitted().then(|| Charged::one(charge, epoch))))
    }

    /// Charges `cost` if it fits now or up to `within` later; or for a waiter, at the moment at which
    /// it was `due`.
    #[inline(never)]
    pub(crate) fn take(
        &self,
        key: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let [limit] = self.limits.as_slice() else {
            return self.take_of_each(key, clock, due, cost, within);
        };
        let decided = self.with(limit, key, clock, due, |state, at| {
            (limit.transition.decide(state, at, cost, within), self.epoch())
        });
        self.outcome(limit, decided, cost)
    }

    /// Charges some of these permits, or all. A key without a slot is decided on as for one permit.
    pub(crate) fn take_some(
        &self,
        key: u64,
        clock: Now<'_>,
        taking: Taking,
        permits: Cost,
    ) -> Outcome {
        let [limit] = self.limits.as_slice() else {
            return match taking {
                Taking::UpTo => self.take_up_to_of_each(key, clock, permits),
                Taking::InAnyCase => self.charge_each(key, clock, permits),
            };
        };
        let decided = self.with(limit, key, clock, None, |state, now| {
            (taking.apply(&limit.transition, state, now, permits), self.epoch())
        });
        self.outcome(limit, decided, Cost::ONE)
    }

    /// Returns the outcome of a decision in an epoch, or of a request for `cost` that found the table full.
    fn outcome(
        &self,
        limit: &LimitStates,
        decided: Result<((Decision, Option<Charge>), u64), Full>,
        cost: Cost,
    ) -> Outcome {
        match decided {
            Ok(((decision, charge), epoch)) => {
                (decision, charge.map(|charge| Charged::one(charge, epoch)))
            }
            Err(full) => (self.decide_without_state(limit, &full, cost), None),
        }
    }

    /// Decides on a cost of a key for which the table is full.
    #[cold]
    pub(super) fn decide_without_state(
        &self,
        limit: &LimitStates,
        full: &Full,
        cost: Cost,
    ) -> Decision {
        self.count_full();
        self.without_state(limit, full, cost)
    }

    /// Returns the decision on a cost of a key for which the table is full.
    pub(super) fn without_state(&self, limit: &LimitStates, full: &Full, cost: Cost) -> Decision {
        let wait = limit.transition.wait(&State::Fresh, full.free_at(), cost);
        let usage = self.usage_without_state(limit, full);
        let decision = match wait {
            Some(_) if self.tables.full.admits() => Decision::admitted(usage),
            wait => Decision::refused(usage, wait.map(|wait| full.wait.saturating_add(wait))),
        };
        decision.with_source(Source::FullTable)
    }

    /// Returns the usage of a key for which the table is full: nothing is left, or all.
    pub(super) fn usage_without_state(&self, limit: &LimitStates, full: &Full) -> Usage {
        let fresh = limit.transition.usage(&State::Fresh, full.free_at());
        if self.tables.full.admits() {
            return fresh;
        }
        Usage::new(fresh.burst(), 0, full.wait)
    }

    /// Changes or reads the state of a key under a limit. A key without a slot gets one if the change charges it.
    ///
    /// `change` may run several times; the last run counts.
    pub(super) fn with<R>(
        &self,
        limit: &LimitStates,
        key: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        mut change: impl FnMut(&mut State, Timestamp) -> R,
    ) -> Result<R, Full> {
        match self.store(limit) {
            Store::Words(words, gcra) => {
                words.with(gcra, key ^ limit.salt, clock, due, |tat: &mut Tat, now| {
                    let mut state = State::Gcra(*tat);
                    let result = change(&mut state, now);
                    if let State::Gcra(changed) = state {
                        *tat = changed;
                    }
                    result
                })
            }
            Store::Table(table, transition) => {
                table.with(key ^ limit.salt, transition, clock, due, change)
            }
        }
    }

    /// Returns the slot of a key under a limit and the limit's algorithm, or `None` where a state is read under a lock.
    #[inline]
    pub(super) fn own_slot<'a>(
        &'a self,
        limit: &'a LimitStates,
        key: u64,
    ) -> Option<(OwnSlot<'a>, &'a Gcra)> {
        let Store::Words(words, gcra) = self.store(limit) else { return None };
        Some((words.own(key ^ limit.salt)?, gcra))
    }

    pub(crate) fn usage(&self, key: u64, clock: Now<'_>) -> Usage {
        let usages = self.limits.iter().enumerate().map(|(index, limit)| {
            let usage =
                self.with(limit, key, clock, None, |state, now| limit.transition.usage(state, now));
            let usage = usage.unwrap_or_else(|full| self.usage_without_state(limit, &full));
            usage.with_limit_index(index)
        });
        Usage::fewest_remaining(usages)
    }

    /// Returns whether a cost ever fits.
    pub(crate) fn can_admit(&self, cost: Cost) -> bool {
        let fits = |limit: &LimitStates| {
            limit.transition.wait(&State::Fresh, Timestamp::ZERO, cost).is_some()
        };
        self.limits.iter().all(fits)
    }

    pub(crate) fn count_full(&self) {
        self.tables.full.count();
    }

    /// Returns how often there was no state, because the table was full.
    pub(crate) fn times_full(&self) -> u64 {
        self.tables.full.times()
    }

    /// Gives back up to `permits` of a charge, and returns how many came back: none in a later epoch.
    pub(crate) fn refund(&self, key: u64, clock: Now<'_>, charged: &Charged, permits: u64) -> u64 {
        let [limit] = self.limits.as_slice() else {
            return self.refund_each(key, clock, charged, permits);
        };
        // Whether the epoch is over shows when the state has been advanced.
        let back = self.with(limit, key, clock, None, |state, now| {
            let counts = self.epoch() == charged.epoch;
            let refund = || limit.transition.refund(state, now, &charged.charge, permits);
            counts.then(refund).unwrap_or(0)
        });
        back.unwrap_or(0)
    }

    /// Makes a key fresh under the limits with a salt.
    pub(crate) fn reset(&self, key: u64, salt: u64, clock: Now<'_>) {
        // A salt is that of one identity, whose states are in one of the tables.
        let (words, table) = self.tables.made();
        if let Some(words) = words {
            words.reset(key ^ salt, clock);
        }
        if let Some(table) = table {
            table.reset(key ^ salt);
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("policy", &self.policy).finish_non_exhaustive()
    }
}
