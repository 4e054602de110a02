//! Where the states of a limiter are stored.

use alloc::sync::Arc;
use core::time::Duration;

use super::{
    scales::{Numbered, Scales},
    table::Table,
    word::{EMPTY, Now, Step, end, number},
    words::Words,
};
use crate::{
    Cost, Decision, Error, Policy, Timestamp, Usage,
    algorithm::{Charge, Marks, Rule, State, Tat, Transition, View},
    sync::{AtomicU64, Ordering},
};

/// The states of a limiter, by the hash of the key. Without keys there is one state.
#[derive(Debug)]
pub(super) enum States {
    /// GCRA, a word a key.
    Words(Words),
    /// GCRA without keys.
    Word { word: AtomicU64, scales: Arc<Scales> },
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

/// A decision, and what was charged by it.
pub(super) type Outcome = (Decision, Option<Charge>);

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
            let (scales, first) = Scales::new(gcra);
            let states = match keys {
                Some(keys) => Self::Words(Words::new(keys, scales)),
                None => Self::Word { word: AtomicU64::new(EMPTY), scales },
            };
            return (states, Bound { policy, numbered: Some(first) });
        }
        let states = match keys {
            Some(keys) => Table::new(keys, entries),
            // One log is bounded by its own limit.
            None => Table::new(1, usize::MAX),
        };
        (Self::Table(states), Bound { policy, numbered: None })
    }

    /// Returns a policy as a handle on these states applies it.
    ///
    /// # Errors
    ///
    /// As [`Scales::number`].
    pub(super) fn bind(&self, policy: Policy, now: Timestamp) -> Result<Bound, Error> {
        let numbered = match (self, policy.rule()) {
            (Self::Words(words), Rule::Gcra(gcra)) => {
                Some(words.scales().number(gcra, now, |number| words.erase(number))?)
            }
            (Self::Word { word, scales }, Rule::Gcra(gcra)) => {
                Some(scales.number(gcra, now, |erased| {
                    let found = word.load(Ordering::Acquire);
                    if number(found) == erased {
                        let swap = (Ordering::AcqRel, Ordering::Relaxed);
                        let _ = word.compare_exchange(found, EMPTY, swap.0, swap.1);
                    }
                })?)
            }
            _ => None,
        };
        Ok(Bound { policy, numbered })
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
        if let Some(own) = &bound.numbered {
            let checked = match self {
                Self::Words(words) => words.check(hash, own, clock(), cost),
                Self::Word { word, .. } => own.check(word, || true, clock(), cost),
                Self::Table(_) => None,
            };
            if let Some(checked) = checked {
                return own.decision(checked, cost);
            }
        }
        self.take(hash, bound, None, clock, cost, Duration::ZERO).0
    }

    /// Charges `cost` if it fits now or up to `within` later; or for a waiter, at the moment `at` at
    /// which it was due.
    #[inline(never)]
    pub(super) fn take(
        &self,
        hash: u64,
        bound: &Bound,
        at: Option<Timestamp>,
        clock: &dyn Fn() -> Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let now = || at.map_or_else(|| Now::read(clock), |at| Now::at(at, clock));
        let (decision, charged) = match (self, &bound.numbered) {
            (Self::Words(words), Some(own)) => words.take(hash, own, &mut now(), cost, within),
            (Self::Word { word, scales }, Some(own)) => {
                let take = |view: &View<'_>, now| own.take(view, now, cost, within);
                own.update(word, scales, &mut now(), &take)
            }
            _ => {
                return self.with(hash, bound, at, clock, |state, now| {
                    bound.rule().decide(state, now, cost, within)
                });
            }
        };
        let charge = charged.map(|(at, mark)| Charge { at, cost, marks: Marks::one(mark) });
        (decision, charge)
    }

    pub(super) fn peek(&self, hash: u64, bound: &Bound, clock: &dyn Fn() -> Timestamp) -> Usage {
        match (self, &bound.numbered) {
            (Self::Words(words), Some(own)) => words.peek(hash, own, &mut Now::read(clock)),
            (Self::Word { word, scales }, Some(own)) => {
                let usage = |view: &View<'_>, _| own.usage(view);
                own.update(word, scales, &mut Now::read(clock), &usage)
            }
            _ => self.with(hash, bound, None, clock, |state, now| bound.rule().usage(state, now)),
        }
    }

    /// Gives back up to `permits` of a charge, and returns how many came back.
    pub(super) fn give_back(
        &self,
        hash: u64,
        bound: &Bound,
        clock: &dyn Fn() -> Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> u64 {
        let Some(own) = &bound.numbered else {
            return self.with(hash, bound, None, clock, |state, now| {
                bound.rule().refund(state, now, charge, permits)
            });
        };
        let give_back = |view: &View<'_>, _| own.give_back(view, charge, permits);
        self.change(hash, own, clock, &give_back).unwrap_or(0)
    }

    pub(super) fn reset(&self, hash: u64, bound: &Bound, clock: &dyn Fn() -> Timestamp) {
        match (self, &bound.numbered) {
            (Self::Table(table), _) => table.reset(hash, bound.rule(), clock),
            (_, Some(own)) => {
                let reset = |view: &View<'_>, _| Step::Write(view.ticks(), ());
                let _ = self.change(hash, own, clock, &reset);
            }
            // Never reached: see `bind`.
            _ => {}
        }
    }

    /// Applies a change to the word of a key, if it has one of its own.
    fn change<R>(
        &self,
        hash: u64,
        own: &Numbered,
        clock: &dyn Fn() -> Timestamp,
        change: &impl Fn(&View<'_>, Timestamp) -> Step<R>,
    ) -> Option<R> {
        let now = &mut Now::read(clock);
        match self {
            Self::Words(words) => words.change(hash, own, now, change),
            Self::Word { word, scales } => Some(own.update(word, scales, now, change)),
            Self::Table(_) => None,
        }
    }

    /// Returns a copy of a state, brought to the present.
    pub(super) fn snapshot(&self, hash: u64, bound: &Bound, now: Timestamp) -> State {
        let tat = |word, scales: &Scales| {
            let scale = scales.get(number(word));
            let mut state = State::Gcra(Tat { at: end(word), scale });
            bound.rule().advance(&mut state, now);
            state
        };
        match self {
            Self::Words(words) => tat(words.snapshot(hash, now), words.scales()),
            Self::Word { word, scales } => tat(word.load(Ordering::Acquire), scales),
            _ => self.with(hash, bound, None, &|| now, |state, _| state.clone()),
        }
    }

    /// Runs `transition` on a state under its lock.
    fn with<R>(
        &self,
        hash: u64,
        bound: &Bound,
        at: Option<Timestamp>,
        clock: &dyn Fn() -> Timestamp,
        transition: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        match self {
            Self::Table(table) => table.with(hash, bound.rule(), at, clock, transition),
            // Never reached, because `bind` numbers every policy of words.
            Self::Words(_) | Self::Word { .. } => transition(&mut State::Fresh, clock()),
        }
    }
}

impl Bound {
    #[inline]
    pub(super) fn rule(&self) -> &Rule {
        self.policy.rule()
    }
}
