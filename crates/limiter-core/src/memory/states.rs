//! The states of a limiter, and where they are stored.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    table::Table,
    word::{Now, Outcome},
    words::Words,
};
use crate::{
    Cost, Decision, Error, Policy, Timestamp, Usage,
    algorithm::{Charge, Rule, State, Transition},
};

/// The states of a limiter under one policy, by the hash of the key.
pub(super) struct States {
    pub(super) policy: Policy,
    store: Store,
}

/// Shared by the handles of a limiter.
#[derive(Clone)]
enum Store {
    /// GCRA, a word a key.
    Words(Words),
    /// Any algorithm.
    Table(Arc<Table>),
}

/// What a receipt gives back, and where.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) limiter: u64,
    pub(super) hash: u64,
    /// By which it was charged.
    pub(super) states: Arc<States>,
    pub(super) charge: Charge,
}

impl States {
    /// Returns the states of so many keys, whose logs have up to `max_entries` entries together.
    /// Wide states are in the table.
    pub(super) fn new(policy: Policy, keys: usize, max_entries: usize, wide: bool) -> Self {
        let store = match policy.rule() {
            Rule::Gcra(gcra) if !wide => Store::Words(Words::new(gcra, keys)),
            _ => Store::Table(Arc::new(Table::new(keys, max_entries))),
        };
        Self { policy, store }
    }

    /// Returns the same states under another policy.
    pub(super) fn with_policy(&self, policy: &Policy, now: Timestamp) -> Result<Self, Error> {
        self.policy.check_families(policy)?;
        let mut store = self.store.clone();
        if let (Store::Words(words), Rule::Gcra(gcra)) = (&mut store, policy.rule()) {
            words.set_quota(gcra, now)?;
        }
        Ok(Self { policy: policy.clone(), store })
    }

    pub(super) fn rule(&self) -> &Rule {
        self.policy.rule()
    }

    /// Returns what [`Words::check`] returns, and for which moment.
    #[inline(always)]
    fn check_word(
        &self,
        hash: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
    ) -> Option<(&Words, (u64, bool), Timestamp)> {
        let Store::Words(words) = &self.store else {
            return None;
        };
        let now = clock();
        Some((words, words.check(hash, now, cost)?, now))
    }

    /// Charges `cost` if it fits now.
    #[inline]
    pub(super) fn check(&self, hash: u64, clock: &impl Fn() -> Timestamp, cost: Cost) -> Decision {
        match self.check_word(hash, clock, cost) {
            Some((words, checked, now)) => words.own.gcra.decision(checked, now, cost),
            None => self.take(hash, clock, None, cost, Duration::ZERO).0,
        }
    }

    /// Charges `cost` if it fits now or up to `within` later.
    pub(super) fn reserve(
        &self,
        hash: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        match self.check_word(hash, clock, cost) {
            Some((words, (end, true), now)) => words.own.outcome(end, now, cost),
            _ => self.take(hash, clock, None, cost, within),
        }
    }

    /// Charges `cost` if it fits now or up to `within` later; or for a waiter, at the moment at which
    /// it was `due`.
    #[inline(never)]
    pub(super) fn take(
        &self,
        hash: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        match &self.store {
            Store::Words(words) => words.take(hash, clock, due, cost, within),
            Store::Table(table) => table.with(hash, self.rule(), clock, due, |state, at| {
                self.rule().decide(state, at, cost, within)
            }),
        }
    }

    /// Reads the state of a key, which may be shared.
    pub(super) fn read<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        read: impl FnOnce(&State, Timestamp) -> R,
    ) -> R {
        match &self.store {
            Store::Words(words) => {
                let (tat, now) = words.read(hash, clock);
                read(&State::Gcra(tat), now)
            }
            Store::Table(table) => {
                table.with(hash, self.rule(), clock, None, |state, now| read(state, now))
            }
        }
    }

    pub(super) fn usage(&self, hash: u64, clock: Now<'_>) -> Usage {
        self.read(hash, clock, |state, now| self.rule().usage(state, now))
    }

    /// Gives back up to `permits` of a charge, and returns how many came back.
    pub(super) fn refund(&self, hash: u64, clock: Now<'_>, charge: &Charge, permits: u64) -> u64 {
        let back = match &self.store {
            Store::Words(words) => words
                .change(hash, clock, |tat, now| words.own.gcra.refund(tat, now, charge, permits)),
            Store::Table(table) => table.change(hash, self.rule(), clock, |state, now| {
                self.rule().refund(state, now, charge, permits)
            }),
        };
        back.unwrap_or(0)
    }

    /// Makes a key fresh, unless it has no place of its own.
    pub(super) fn reset(&self, hash: u64, clock: Now<'_>) {
        match &self.store {
            Store::Words(words) => words.reset(hash, clock),
            Store::Table(table) => {
                table.change(hash, self.rule(), clock, |state, _| *state = State::Fresh);
            }
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("policy", &self.policy).finish_non_exhaustive()
    }
}
