//! The states of a limiter, and where they are stored.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    full::{Full, FullTable, OnFull},
    present::Now,
    table::Table,
    taking::Taking,
    words::{Numbered, Words},
};
use crate::{
    Cost, Decision, Error, KnownQuotas, Limit, Policy, Source, Timestamp, Usage,
    algorithms::{AnyTransition, State, Tat, Transition},
    charge::{Charge, Charged, Marks},
    ticks::ticks,
};

/// The states of a limiter under one policy, by the hash of the key. A clone has the same states.
#[derive(Clone)]
pub(crate) struct States {
    pub(crate) policy: Policy,
    store: Store,
    full: Arc<FullTable>,
}

#[derive(Clone)]
enum Store {
    /// GCRA, a slot a key, and the quota that asks.
    Words(Arc<Words>, Numbered),
    /// Any algorithm.
    Table(Arc<Table>),
}

/// How many states a limiter may have, and what happens to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// About how many keys.
    pub(crate) keys: usize,
    /// The entries of logs for each of them, which all share.
    pub(crate) entries_per_key: usize,
    /// Whether states are in the table although they have room in a word.
    pub(crate) wide_states: bool,
    pub(crate) on_full: OnFull,
    /// How many waiters there may be.
    pub(crate) max_waiting: usize,
}

/// A decision, and what was charged by it.
pub(crate) type Outcome = (Decision, Option<Charged>);

impl States {
    pub(crate) fn new(policy: Policy, room: Room) -> Self {
        let store = match policy.transition() {
            AnyTransition::Gcra(gcra) if !room.wide_states => {
                let (words, own) = Words::new(room.keys, gcra);
                Store::Words(Arc::new(words), own)
            }
            _ => {
                let of_one_key: usize = policy.limits().iter().map(Limit::most_entries).sum();
                let table = Table::new(room.keys, room.entries_per_key, of_one_key);
                Store::Table(Arc::new(table))
            }
        };
        Self { policy, store, full: Arc::new(FullTable::new(room.on_full)) }
    }

    /// Returns the same states under another policy.
    #[inline]
    pub(crate) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        self.policy.check_families(policy)?;
        let store = match (&self.store, policy.transition()) {
            (Store::Words(words, _), AnyTransition::Gcra(gcra)) => {
                Store::Words(Arc::clone(words), words.numbered(gcra)?)
            }
            (store, _) => store.clone(),
        };
        Ok(Self { policy: policy.clone(), store, full: Arc::clone(&self.full) })
    }

    /// Returns how many quotas are known, if that is limited.
    pub(crate) fn known_quotas(&self) -> Option<KnownQuotas> {
        match &self.store {
            Store::Words(words, _) => Some(words.known_quotas()),
            Store::Table(_) => None,
        }
    }

    pub(crate) fn transition(&self) -> &AnyTransition {
        self.policy.transition()
    }

    /// Charges `cost` if it fits now, or returns `None` where that takes a lock.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        hash: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
    ) -> Option<Decision> {
        match &self.store {
            Store::Words(words, own) => {
                words.check(own, hash, clock(), cost).map(|(decision, _)| decision)
            }
            Store::Table(_) => None,
        }
    }

    /// Charges `cost` if it fits now.
    ///
    /// Apart from [`take`](Self::take), because a check of a fixed window takes 17 % longer with what only a
    /// receipt needs: `cargo xtask bench memory`.
    pub(crate) fn check_locked(&self, hash: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let decided = match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, None, |tat, now| {
                own.gcra.decide(tat, now, cost, Duration::ZERO).0
            }),
            Store::Table(table) => {
                table.with(hash, self.transition(), clock, None, |state, now| {
                    self.transition().decide(state, now, cost, Duration::ZERO).0
                })
            }
        };
        decided.unwrap_or_else(|full| self.decide_without_state(&full, cost))
    }

    /// Charges `cost` if it fits now or up to `within` later.
    pub(crate) fn reserve(
        &self,
        hash: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        match self.reserve_now(hash, clock(), cost) {
            Some(outcome) if outcome.0.is_admitted() || within.is_zero() => outcome,
            _ => self.take(hash, clock, None, cost, within),
        }
    }

    /// Charges `cost` if it fits at `now`, or returns `None` where that takes a lock.
    pub(crate) fn reserve_now(&self, hash: u64, now: Timestamp, cost: Cost) -> Option<Outcome> {
        let Store::Words(words, own) = &self.store else { return None };
        let epoch = words.epoch.get();
        let (decision, tat) = words.check(own, hash, now, cost)?;
        let charge = Charge { made: now, at: now, cost, marks: Marks::one(tat) };
        Some((decision, decision.is_admitted().then_some(Charged { charge, epoch })))
    }

    /// Charges `cost` if it fits now or up to `within` later; or for a waiter, at the moment at which
    /// it was `due`.
    #[inline(never)]
    pub(crate) fn take(
        &self,
        hash: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let decided = match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, due, |tat, at| {
                (own.gcra.decide(tat, at, cost, within), words.epoch.get())
            }),
            Store::Table(table) => table.with(hash, self.transition(), clock, due, |state, at| {
                (self.transition().decide(state, at, cost, within), table.epoch.get())
            }),
        };
        self.outcome(decided, cost)
    }

    /// Charges some of these permits, or all. A key without a slot is decided on as for one permit.
    pub(crate) fn take_some(
        &self,
        hash: u64,
        clock: Now<'_>,
        taking: Taking,
        permits: Cost,
    ) -> Outcome {
        let decided = match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, None, |tat, now| {
                (taking.apply(&own.gcra, tat, now, permits), words.epoch.get())
            }),
            Store::Table(table) => {
                table.with(hash, self.transition(), clock, None, |state, now| {
                    (taking.apply(self.transition(), state, now, permits), table.epoch.get())
                })
            }
        };
        self.outcome(decided, Cost::ONE)
    }

    /// Returns the outcome of a decision in an epoch, or of a request for `cost` that found the table full.
    fn outcome(
        &self,
        decided: Result<((Decision, Option<Charge>), u64), Full>,
        cost: Cost,
    ) -> Outcome {
        match decided {
            Ok(((decision, charge), epoch)) => {
                (decision, charge.map(|charge| Charged { charge, epoch }))
            }
            Err(full) => (self.decide_without_state(&full, cost), None),
        }
    }

    /// Decides on a cost of a key for which the table is full.
    #[cold]
    fn decide_without_state(&self, full: &Full, cost: Cost) -> Decision {
        self.full.count();
        self.without_state(full, cost)
    }

    /// Returns the decision on a cost of a key for which the table is full.
    fn without_state(&self, full: &Full, cost: Cost) -> Decision {
        let (transition, fresh, free_at) = (self.transition(), &State::Fresh, full.free_at());
        let usage = self.usage_without_state(full);
        let decision = match transition.wait(fresh, free_at, cost) {
            Some(_) if self.full.admits() => Decision::admitted(usage),
            wait => Decision::refused(usage, wait.map(|wait| full.wait.saturating_add(wait))),
        };
        decision.with_source(Source::FullTable)
    }

    /// Returns the usage of a key for which the table is full: nothing is left, or all.
    fn usage_without_state(&self, full: &Full) -> Usage {
        let fresh = self.transition().usage(&State::Fresh, full.free_at());
        if self.full.admits() {
            return fresh;
        }
        Usage::new(fresh.burst(), 0, full.wait).with_limit_index(fresh.limit_index())
    }

    /// Reads the state of a key by the transition that applies to it.
    pub(crate) fn read<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        read: impl Fn(&AnyTransition, &State, Timestamp) -> R,
    ) -> Result<R, Full> {
        match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, None, |tat: &mut Tat, now| {
                read(self.transition(), &State::Gcra(*tat), now)
            }),
            Store::Table(table) => {
                let transition = self.transition();
                table.with(hash, transition, clock, None, |state, now| read(transition, state, now))
            }
        }
    }

    pub(crate) fn usage(&self, hash: u64, clock: Now<'_>) -> Usage {
        let usage = self.read(hash, clock, AnyTransition::usage);
        usage.unwrap_or_else(|full| self.usage_without_state(&full))
    }

    /// Returns what [`preview`](Self::preview) does at `now`, or `None` where that takes a lock.
    pub(crate) fn preview_now(&self, hash: u64, now: Timestamp, cost: Cost) -> Option<Decision> {
        match &self.store {
            Store::Words(words, own) => words.preview(own, hash, now, cost),
            Store::Table(_) => None,
        }
    }

    /// Returns the decision on `cost`, with the usage before it, and charges nothing.
    pub(crate) fn preview(&self, hash: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let decide = |transition: &AnyTransition, state: &State, now| match transition
            .wait(state, now, cost)
        {
            Some(Duration::ZERO) => Decision::admitted(transition.usage(state, now)),
            wait => Decision::refused(transition.refusing(state, now, cost), wait),
        };
        self.read(hash, clock, decide).unwrap_or_else(|full| self.without_state(&full, cost))
    }

    pub(crate) fn count_full(&self) {
        self.full.count();
    }

    /// Returns how often there was no state, because the table was full.
    pub(crate) fn times_full(&self) -> u64 {
        self.full.times()
    }

    /// Gives back up to `permits` of a charge, and returns how many came back: none in a later epoch.
    pub(crate) fn refund(&self, hash: u64, clock: Now<'_>, charged: &Charged, permits: u64) -> u64 {
        let Charged { charge, epoch } = charged;
        // Whether the epoch is over shows when the state has been advanced.
        let back = match &self.store {
            Store::Words(words, own) => words.change(own, hash, clock, |tat, now| {
                let counts = words.epoch.get() == *epoch;
                if counts { own.gcra.refund(tat, now, charge, permits) } else { 0 }
            }),
            Store::Table(table) => table.change(hash, self.transition(), clock, |state, now| {
                let counts = table.epoch.get() == *epoch;
                if counts { self.transition().refund(state, now, charge, permits) } else { 0 }
            }),
        };
        back.unwrap_or(0)
    }

    /// Makes a key fresh.
    pub(crate) fn reset(&self, hash: u64, clock: Now<'_>) {
        match &self.store {
            Store::Words(words, own) => {
                words.change(own, hash, clock, |tat, now| tat.at = ticks(now));
            }
            Store::Table(table) => {
                table.change(hash, self.transition(), clock, |state, _| *state = State::Fresh);
            }
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("policy", &self.policy).finish_non_exhaustive()
    }
}
