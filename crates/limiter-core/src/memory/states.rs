//! Where the states of a limiter are stored.

use alloc::sync::Arc;
use core::time::Duration;

use super::{
    scales::{Numbered, Scales},
    table::Table,
    word::{Change, EMPTY, Outcome, When, erase},
    words::Words,
};
use crate::{
    Cost, Decision, Error, Policy, Timestamp, Usage,
    algorithm::{Charge, Rule, State, Transition},
    sync::AtomicU64,
};

/// The states of a limiter, by the hash of the key. Without keys there is one state.
#[derive(Debug)]
pub(super) enum States {
    /// GCRA, a word a key.
    Words(Words),
    /// GCRA without keys.
    Word(AtomicU64),
    /// Any algorithm.
    Table(Table),
}

/// A policy as a handle applies it.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) policy: Policy,
    /// For states that are words.
    numbered: Option<Numbered>,
}

/// What a receipt gives back, and where.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) limiter: u64,
    pub(super) hash: u64,
    /// By which it was charged.
    pub(super) bound: Arc<Bound>,
    pub(super) charge: Charge,
}

impl States {
    /// Returns the states of `policy` for so many keys, `None` for one state without a key, and the
    /// policy as a handle applies it.
    pub(super) fn new(
        policy: Policy,
        keys: Option<usize>,
        entries: usize,
        wide: bool,
    ) -> (Self, Bound) {
        if let (Rule::Gcra(gcra), false) = (policy.rule(), wide) {
            let numbered = Some(Scales::first(gcra));
            let states = match keys {
                Some(keys) => Self::Words(Words::new(keys)),
                None => Self::Word(AtomicU64::new(EMPTY)),
            };
            return (states, Bound { policy, numbered });
        }
        let states = match keys {
            Some(keys) => Table::new(keys, entries),
            // One log is bounded by its own limit.
            None => Table::new(1, usize::MAX),
        };
        (Self::Table(states), Bound { policy, numbered: None })
    }

    /// Returns a policy as another handle on these states applies it.
    ///
    /// # Errors
    ///
    /// As [`Scales::number`].
    pub(super) fn bind(&self, own: &Bound, policy: Policy, now: Timestamp) -> Result<Bound, Error> {
        let erase = |number| match self {
            Self::Words(words) => words.erase(number),
            Self::Word(word) => erase(word, number),
            Self::Table(_) => {}
        };
        let numbered = match (&own.numbered, policy.rule()) {
            (Some(own), Rule::Gcra(gcra)) => Some(own.scales.number(gcra, now, erase)?),
            _ => None,
        };
        Ok(Bound { policy, numbered })
    }

    /// Returns what [`Numbered::check`] returns, and for which moment. Without a cost, nothing is charged.
    #[inline(always)]
    fn check_word<'a>(
        &self,
        hash: u64,
        bound: &'a Bound,
        clock: &(impl Fn() -> Timestamp + ?Sized),
        cost: Option<Cost>,
    ) -> Option<(&'a Numbered, (u64, bool), Timestamp)> {
        let own = bound.numbered.as_ref()?;
        let now = clock();
        let checked = match self {
            Self::Words(words) => words.check(hash, own, now, cost),
            Self::Word(word) => own.check(word, || true, now, cost),
            Self::Table(_) => None,
        };
        Some((own, checked?, now))
    }

    /// Charges `cost` if it fits now.
    #[inline]
    pub(super) fn check(
        &self,
        hash: u64,
        bound: &Bound,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
    ) -> Decision {
        match self.check_word(hash, bound, clock, Some(cost)) {
            Some((own, checked, now)) => own.gcra.decision(checked, now, cost),
            None => self.take(hash, bound, When::now(clock), cost, Duration::ZERO).0,
        }
    }

    /// Charges `cost` if it fits now or up to `within` later.
    pub(super) fn reserve(
        &self,
        hash: u64,
        bound: &Bound,
        clock: &impl Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        match self.check_word(hash, bound, clock, Some(cost)) {
            Some((own, (end, true), now)) => own.outcome(end, now, cost),
            _ => self.take(hash, bound, When::now(clock), cost, within),
        }
    }

    /// Charges `cost` if it fits now or up to `within` later; or for a waiter, at the moment at which
    /// it was due.
    #[inline(never)]
    pub(super) fn take(
        &self,
        hash: u64,
        bound: &Bound,
        when: When<'_>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let take = |state: &mut State, now| bound.rule().decide(state, now, cost, within);
        if let (Self::Words(words), Some(own)) = (self, &bound.numbered) {
            let mut taken = (Decision::refused(Usage::new(0, 0, Duration::ZERO), None), None);
            words.take(hash, own, when, cost, &mut taken, take);
            return taken;
        }
        self.with(hash, bound, when, take)
    }

    pub(super) fn peek(&self, hash: u64, bound: &Bound, when: When<'_>) -> Usage {
        if let Some((own, (end, _), now)) = self.check_word(hash, bound, when.clock, None) {
            return own.gcra.own_usage(end, now);
        }
        self.with(hash, bound, when, |state, now| bound.rule().usage(state, now))
    }

    /// Gives back up to `permits` of a charge, and returns how many came back.
    pub(super) fn give_back(
        &self,
        hash: u64,
        bound: &Bound,
        when: When<'_>,
        charge: &Charge,
        permits: u64,
    ) -> u64 {
        let mut back = 0;
        self.change(hash, bound, when, &mut |state, now| {
            back = bound.rule().refund(state, now, charge, permits);
        });
        back
    }

    /// Changes a state, unless the key has no place of its own.
    pub(super) fn change(&self, hash: u64, bound: &Bound, when: When<'_>, change: Change<'_>) {
        match (self, &bound.numbered) {
            (Self::Words(words), Some(own)) => {
                words.change(hash, own, when, change);
            }
            (Self::Word(word), Some(own)) => own.update(word, when, change),
            (Self::Table(table), _) => table.change(hash, bound.rule(), when, change),
            // Never reached, because `bind` numbers every policy of words.
            _ => {}
        }
    }

    /// Changes a state, which may be shared, or reads it.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        bound: &Bound,
        when: When<'_>,
        change: impl Fn(&mut State, Timestamp) -> R,
    ) -> R {
        let mut result = None;
        let run: Change<'_> = &mut |state, now| result = Some(change(state, now));
        match (self, &bound.numbered) {
            (Self::Words(words), Some(own)) => words.read(hash, own, when, run),
            (Self::Word(word), Some(own)) => own.update(word, when, run),
            (Self::Table(table), _) => return table.with(hash, bound.rule(), when, change),
            _ => {}
        }
        // Numbered by `bind`, a policy of words is never without a result.
        result.unwrap_or_else(|| change(&mut State::Fresh, (when.clock)()))
    }
}

impl Bound {
    #[inline]
    pub(super) fn rule(&self) -> &Rule {
        self.policy.rule()
    }
}
