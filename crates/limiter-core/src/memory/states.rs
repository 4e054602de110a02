//! The states of a limiter, and where they are stored.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    table::Table,
    words::{Now, Numbered, Words},
};
use crate::{
    Cost, Decision, Error, KnownQuotas, Policy, Timestamp, Usage,
    algorithm::{Charge, Marks, Rule, State, Tat, Transition, ticks::ticks},
};

/// The states of a limiter under one policy, by the hash of the key. A clone has the same states.
#[derive(Clone)]
pub(super) struct States {
    pub(super) policy: Policy,
    store: Store,
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
    pub(super) fn new(policy: Policy, keys: usize, max_entries: usize, wide: bool) -> Self {
        let store = match policy.rule() {
            Rule::Gcra(gcra) if !wide => {
                let (words, own) = Words::new(keys, gcra);
                Store::Words(Arc::new(words), own)
            }
            _ => Store::Table(Arc::new(Table::new(keys, max_entries))),
        };
        Self { policy, store }
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
        Ok(Self { policy: policy.clone(), store })
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
        let (((decision, charge), epoch), is_shared) = match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, due, |tat, at| {
                (own.gcra.decide(tat, at, cost, within), words.epoch.get())
            }),
            Store::Table(table) => table.with(hash, self.rule(), clock, due, |rule, state, at| {
                (rule.decide(state, at, cost, within), table.epoch.get())
            }),
        };
        let charged = charge.map(|charge| Charged { charge, epoch });
        (if is_shared { decision.shared() } else { decision }, charged)
    }

    /// Reads the state of a key, which may be shared, by the rule that applies to it.
    pub(super) fn read<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        read: impl Fn(&Rule, &State, Timestamp) -> R,
    ) -> (R, bool) {
        match &self.store {
            Store::Words(words, own) => words.with(own, hash, clock, None, |tat: &mut Tat, now| {
                read(self.rule(), &State::Gcra(*tat), now)
            }),
            Store::Table(table) => {
                table
                    .with(hash, self.rule(), clock, None, |rule, state, now| read(rule, state, now))
            }
        }
    }

    pub(super) fn usage(&self, hash: u64, clock: Now<'_>) -> Usage {
        let (usage, is_shared) = self.read(hash, clock, Rule::usage);
        if is_shared { usage.shared() } else { usage }
    }

    /// Returns the decision on `cost`, with the usage before it, and charges nothing.
    pub(super) fn preview(&self, hash: u64, clock: Now<'_>, cost: Cost) -> Decision {
        let (decision, is_shared) =
            self.read(hash, clock, |rule, state, now| match rule.wait(state, now, cost) {
                Some(Duration::ZERO) => Decision::admitted(rule.usage(state, now)),
                wait => Decision::refused(rule.refusing(state, now, cost), wait),
            });
        if is_shared { decision.shared() } else { decision }
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

    /// Makes a key fresh, unless it has no place of its own.
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
