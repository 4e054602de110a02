//! The states of a limiter, and where they are stored.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    on_full::OnFull,
    place::Full,
    table::Table,
    words::{Now, Numbered, Words},
};
use crate::{
    Cost, Decision, Error, KnownQuotas, Policy, Source, Timestamp, Usage,
    algorithm::{Charge, Marks, Rule, State, Tat, Transition, ticks::ticks},
    sync::{AtomicU64, Ordering},
};

/// The states of a limiter under one policy, by the hash of the key. A clone has the same states.
#[derive(Clone)]
pub(super) struct States {
    pub(super) policy: Policy,
    store: Store,
    full: Arc<OnFullTable>,
}

/// What happens to keys for which the table is full, and how often that was.
#[derive(Default)]
struct OnFullTable {
    is_admitted: bool,
    times: AtomicU64,
}

#[derive(Clone)]
enum Store {
    /// GCRA, a slot a key, and the quota that asks.
    Words(Arc<Words>, Numbered),
    /// Any algorithm.
    Table(Arc<Table>),
}

/// A decision, and what was charged by it.
pub(super) type Outcome = (Decision, Option<Charged>);

/// What was charged, in which [epoch](super::words::Epoch).
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    pub(super) charge: Charge,
    epoch: u64,
}

/// What a receipt gives back, and where. Not the states, because a receipt may be kept for longer than
/// its limiter.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) limiter: u64,
    pub(super) hash: u64,
    /// By which it was charged.
    pub(super) policy: Policy,
    pub(super) charged: Charged,
}

impl States {
    /// Returns the states of so many keys, whose logs have up to `max_entries` entries together.
    /// Wide states are in the table.
    pub(super) fn new(
        policy: Policy,
        keys: usize,
        max_entries: usize,
        wide: bool,
        on_full: OnFull,
    ) -> Self {
        let store = match policy.rule() {
            Rule::Gcra(gcra) if !wide => {
                let (words, own) = Words::new(keys, gcra);
                Store::Words(Arc::new(words), own)
            }
            _ => Store::Table(Arc::new(Table::new(keys, max_entries))),
        };
        let is_admitted = on_full == OnFull::Admit;
        let full = Arc::new(OnFullTable { is_admitted, times: AtomicU64::new(0) });
        Self { policy, store, full }
    }

    /// Returns the same states under another policy.
    #[inline]
    pub(super) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        self.policy.check_families(policy)?;
        let store = match (&self.store, policy.rule()) {
            (Store::Words(words, _), Rule::Gcra(gcra)) => {
                Store::Words(Arc::clone(words), words.numbered(gcra)?)
            }
            (store, _) => store.clone(),
        };
        Ok(Self { policy: policy.clone(), store, full: Arc::clone(&self.full) })
    }

    /// Returns how many quotas are known, if that is limited.
    pub(super) fn known_quotas(&self) -> Option<KnownQuotas> {
        match &self.store {
            Store::Words(words, _) => Some(words.known_quotas()),
            Store::Table(_) => None,
        }
    }

    pub(super) fn rule(&self) -> &Rule {
        self.policy.rule()
    }

    /// Charges `cost` if it fits now.
    #[inline]
    pub(super) fn check(&self, hash: u64, clock: &impl Fn() -> Timestamp, cost: Cost) -> Decision {
        if let Store::Words(words, own) = &self.store
            && let Some(checked) = words.check(own, hash, clock(), cost)
        {
            return own.gcra.decision(checked, cost);
        }
        self.take(hash, clock, None, cost, Duration::ZERO).0
    }

    /// Charges `cost` if it fits now or up to `within` later.
    pub(super) fn reserve(
        &self,
        hash: u64,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        if let Store::Words(words, own) = &self.store {
            let (epoch, now) = (words.epoch.get(), clock());
            if let Some((debt, true)) = words.check(own, hash, now, cost) {
                let marks = Marks::one(ticks(now).wrapping_add(debt));
                let charge = Charge { made: now, at: now, cost, marks };
                let charged = Charged { charge, epoch };
                return (own.gcra.decision((debt, true), cost), Some(charged));
            }
        }
        self.take(hash, clock, None, cost, within)
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
        let decided = match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, due, |tat, at| {
                (own.gcra.decide(tat, at, cost, within), words.epoch.get())
            }),
            Store::Table(table) => table.with(hash, self.rule(), clock, due, |state, at| {
                (self.rule().decide(state, at, cost, within), table.epoch.get())
            }),
        };
        match decided {
            Ok(((decision, charge), epoch)) => {
                (decision, charge.map(|charge| Charged { charge, epoch }))
            }
            Err(full) => {
                self.full.times.fetch_add(1, Ordering::Relaxed);
                (self.without_state(&full, cost), None)
            }
        }
    }

    /// Returns the decision on a cost of a key for which the table is full.
    fn without_state(&self, full: &Full, cost: Cost) -> Decision {
        let (rule, fresh, free_at) = (self.rule(), &State::Fresh, full.free_at());
        let usage = self.usage_without_state(full);
        let decision = match rule.wait(fresh, free_at, cost) {
            Some(_) if self.full.is_admitted => Decision::admitted(usage),
            wait => Decision::refused(usage, wait.map(|wait| full.wait.saturating_add(wait))),
        };
        decision.with_source(Source::FullTable)
    }

    /// Returns the usage of a key for which the table is full: nothing is left, or all.
    fn usage_without_state(&self, full: &Full) -> Usage {
        let fresh = self.rule().usage(&State::Fresh, full.free_at());
        if self.full.is_admitted {
            return fresh;
        }
        Usage::new(fresh.burst(), 0, full.wait).with_limit_index(fresh.limit_index())
    }

    /// Reads the state of a key by the rule that applies to it.
    pub(super) fn read<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        read: impl Fn(&Rule, &State, Timestamp) -> R,
    ) -> Result<R, Full> {
        match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, None, |tat: &mut Tat, now| {
                read(self.rule(), &State::Gcra(*tat), now)
            }),
            Store::Table(table) => {
                let rule = self.rule();
                table.with(hash, rule, clock, None, |state, now| read(rule, state, now))
            }
        }
    }

    pub(super) fn usage(&self, hash: u64, clock: Now<'_>) -> Usage {
        let usage = self.read(hash, clock, Rule::usage);
        usage.unwrap_or_else(|full| self.usage_without_state(&full))
    }

    /// Returns the decision on `cost`, with the usage before it, and charges nothing.
    pub(super) fn preview(&self, hash: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let decide = |rule: &Rule, state: &State, now| match rule.wait(state, now, cost) {
            Some(Duration::ZERO) => Decision::admitted(rule.usage(state, now)),
            wait => Decision::refused(rule.refusing(state, now, cost), wait),
        };
        self.read(hash, clock, decide).unwrap_or_else(|full| self.without_state(&full, cost))
    }

    /// Returns how often there was no state, because the table was full.
    pub(super) fn times_full(&self) -> u64 {
        self.full.times.load(Ordering::Relaxed)
    }

    /// Gives back up to `permits` of a charge, and returns how many came back: none in a later epoch.
    pub(super) fn refund(&self, hash: u64, clock: Now<'_>, charged: &Charged, permits: u64) -> u64 {
        let Charged { charge, epoch } = charged;
        // Whether the epoch is over shows when the state has been advanced.
        let back = match &self.store {
            Store::Words(words, own) => words.change(own, hash, clock, |tat, now| {
                let counts = words.epoch.get() == *epoch;
                if counts { own.gcra.refund(tat, now, charge, permits) } else { 0 }
            }),
            Store::Table(table) => table.change(hash, self.rule(), clock, |state, now| {
                let counts = table.epoch.get() == *epoch;
                if counts { self.rule().refund(state, now, charge, permits) } else { 0 }
            }),
        };
        back.unwrap_or(0)
    }

    /// Makes a key fresh.
    pub(super) fn reset(&self, hash: u64, clock: Now<'_>) {
        match &self.store {
            Store::Words(words, own) => {
                words.change(own, hash, clock, |tat, now| tat.at = ticks(now));
            }
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
