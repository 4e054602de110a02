//! One decision over several limits, which are those of one policy or of a list of demands: all are charged, or none.
//!
//! All limits are read, and then charged in one order, whatever list they are in: so of two lists that share limits, one
//! is charged. If another thread takes permits in between, what was charged is given back.

use core::time::Duration;

use smallvec::SmallVec;

use super::{
    present::Now,
    states::{LimitStates, States},
    words::OwnSlot,
};
use crate::{
    Cost, Decision, LimiterId, Source, Timestamp, Usage,
    algorithms::{Gcra, State, Transition},
    charge::{Charge, Charged},
};

/// A cost for a key under a policy.
pub(crate) struct Ask<'a> {
    pub(crate) limiter: LimiterId,
    pub(crate) states: &'a States,
    /// The hash of the key.
    pub(crate) key: u64,
    pub(crate) clock: Now<'a>,
    /// When the clock was read, for limits whose states are read without a lock.
    pub(crate) now: Timestamp,
    /// What has to fit.
    pub(crate) cost: Cost,
    /// What is charged if all fit, `None` if nothing is.
    pub(crate) charge: Option<Cost>,
}

/// The limits of some asks, as they were read and then charged.
pub(crate) struct List<'a> {
    asks: &'a [Ask<'a>],
    /// Of the first ask, of the second one, and so on.
    pub(super) parts: SmallVec<[Part<'a>; 4]>,
    /// For waiters: when they were due.
    due: Option<Timestamp>,
    /// When the first limit was read.
    pub(super) now: Timestamp,
}

/// A limit of an ask.
pub(super) struct Part<'a> {
    pub(super) ask: &'a Ask<'a>,
    pub(super) limit: &'a LimitStates,
    /// Until the cost fits.
    wait: Option<Duration>,
    pub(super) usage: Usage,
    /// Whether the key has a state, or room for one.
    pub(super) has_state: bool,
    /// Where its debt was read without a lock.
    slot: Option<(OwnSlot<'a>, &'a Gcra)>,
    /// By which a refund finds what was charged.
    pub(super) mark: Option<u64>,
    /// Before it was charged.
    pub(super) epoch: u64,
}

impl<'a> List<'a> {
    /// Reads all limits at present, or when a waiter was `due`.
    pub(crate) fn read(asks: &'a [Ask<'a>], due: Option<Timestamp>) -> Self {
        let mut list = Self { asks, parts: SmallVec::new(), due, now: Timestamp::ZERO };
        for ask in asks {
            for limit in &ask.states.limits {
                let (at, part) = ask.see(limit, due, Duration::ZERO);
                if list.parts.is_empty() {
                    list.now = at;
                }
                list.parts.push(part);
            }
        }
        list
    }

    /// Returns the limits of the ask at an index.
    fn of(&self, index: usize) -> &[Part<'a>] {
        let (first, next) = (self.first_of(index), self.first_of(index + 1));
        self.parts.get(first..next).unwrap_or_default()
    }

    /// Returns the place of the first limit of the ask at an index.
    fn first_of(&self, index: usize) -> usize {
        self.asks.iter().take(index).map(|ask| ask.states.limits.len()).sum()
    }

    /// Returns whether all asks fit.
    pub(crate) fn fits(&self) -> bool {
        self.parts.iter().all(|part| part.wait == Some(Duration::ZERO))
    }

    /// Returns the time until the ask at an index fits all of its limits.
    pub(crate) fn wait(&self, index: usize) -> Option<Duration> {
        let parts = self.of(index);
        let first = longest(parts.iter().map(|part| part.wait))?;
        if first.is_zero() || parts.len() == 1 {
            return Some(first);
        }
        // The slots of a paced limit, of which there is at most one, may miss the longest wait. What the others admit,
        // they admit from then on.
        let later = parts.iter().filter(|part| part.has_state);
        let more = longest(later.map(|part| part.ask.see(part.limit, self.due, first).1.wait))?;
        Some(first.saturating_add(more))
    }

    /// Returns the decision on the ask at an index, which has to wait so long.
    pub(crate) fn decision(&self, index: usize, wait: Option<Duration>) -> Decision {
        let parts = self.of(index);
        let usages = parts.iter().enumerate();
        let usages = usages.map(|(place, part)| part.usage.with_limit_index(place));
        let decision = match wait {
            Some(Duration::ZERO) => Decision::admitted(Usage::fewest_remaining(usages)),
            wait => {
                let waits = parts.iter().map(|part| part.wait);
                Decision::refused(Usage::longest_wait(waits.zip(usages)), wait)
            }
        };
        let decides = |part: &Part<'_>| decision.is_admitted() || part.wait == wait;
        match parts.iter().any(|part| !part.has_state && decides(part)) {
            true => decision.with_source(Source::FullTable),
            false => decision,
        }
    }

    /// Charges all limits for a moment at which all fitted, in the order of their states. If another thread has taken
    /// permits or a slot since, gives back what was charged, and returns the index of the ask that does not fit, with the
    /// refusal.
    pub(crate) fn charge(&mut self, at: Timestamp) -> Result<(), (usize, Decision)> {
        let mut order: SmallVec<[(LimiterId, u64, u64, usize); 4]> = SmallVec::new();
        for (index, part) in self.parts.iter().enumerate() {
            order.push((part.ask.limiter, part.limit.salt, part.ask.key, index));
        }
        order.sort_unstable();
        for (.., index) in order {
            let Some(part) = self.parts.get_mut(index) else { continue };
            if let Err(refusal) = part.charge(self.due, at) {
                self.give_back(at);
                let is_of =
                    |ask: &usize| (self.first_of(*ask)..self.first_of(ask + 1)).contains(&index);
                let ask = (0..self.asks.len()).find(is_of).unwrap_or_default();
                let usage = refusal.usage().with_limit_index(index - self.first_of(ask));
                let refused = Decision::refused(usage, refusal.retry_after());
                return Err((ask, refused.with_source(refusal.source())));
            }
        }
        Ok(())
    }

    /// Gives back what was charged for a moment.
    fn give_back(&mut self, at: Timestamp) {
        for part in &mut self.parts {
            let (Some(mark), Some(cost)) = (part.mark.take(), part.ask.charge) else { continue };
            let charge = Charge { made: self.now, at, cost, mark };
            let usage = part.ask.change(part.limit, None, |state, now| {
                // Whether the epoch is over shows when the state has been advanced.
                if part.ask.states.epoch() == part.epoch {
                    part.limit.transition.refund(state, now, &charge, cost.get());
                }
                part.limit.transition.usage(state, now)
            });
            part.usage = usage.unwrap_or(part.usage);
        }
    }

    /// Returns what was charged for a moment by the ask at an index. `None` if a limit admits without a state, for which
    /// nothing could be given back.
    pub(crate) fn charged(&self, index: usize, at: Timestamp) -> Option<Charged> {
        let (ask, parts) = (self.asks.get(index)?, self.of(index));
        let (first, others) = parts.split_first()?;
        let charge = Charge { made: self.now, at, cost: ask.charge?, mark: first.mark? };
        let others = others.iter().map(|part| part.mark).collect::<Option<_>>()?;
        let epoch = parts.iter().map(|part| part.epoch).min()?;
        Some(Charged { charge, others, epoch })
    }
}

/// Returns the longest wait, `None` if one of them is for ever.
fn longest(waits: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    waits.reduce(|one, other| Some(one?.max(other?))).unwrap_or(Some(Duration::ZERO))
}

impl<'a> Ask<'a> {
    /// Reads whether the cost fits a limit, or would fit so much later, and returns when that was.
    fn see(
        &'a self,
        limit: &'a LimitStates,
        due: Option<Timestamp>,
        later: Duration,
    ) -> (Timestamp, Part<'a>) {
        let part = |wait, usage| Part {
            ask: self,
            limit,
            wait,
            usage,
            has_state: true,
            slot: None,
            mark: None,
            epoch: 0,
        };
        let see = |state: &State, at: Timestamp| {
            let wait = limit.transition.wait(state, at.saturating_add(later), self.cost);
            (at, part(wait, limit.transition.usage(state, at)))
        };
        if due.is_none()
            && later.is_zero()
            && let Some((slot, gcra)) = self.states.own_slot(limit, self.key)
            && let Some(tat) = slot.read(gcra, self.now)
        {
            let (wait, usage) = (gcra.wait(&tat, self.now, self.cost), gcra.usage(&tat, self.now));
            return (self.now, Part { slot: Some((slot, gcra)), ..part(wait, usage) });
        }
        let seen = self.states.with(limit, self.key, self.clock, due, |state, at| see(state, at));
        seen.unwrap_or_else(|full| {
            if self.charge.is_none() {
                // To a cost that is not charged, a key without a state is an absent one.
                return see(&State::Fresh, full.now);
            }
            let decision = self.states.without_state(limit, &full, self.cost);
            let part = part(decision.retry_after(), decision.usage());
            (full.now, Part { has_state: false, ..part })
        })
    }

    /// Changes the state of a limit. A key for which the table is full has none.
    pub(super) fn change<R>(
        &self,
        limit: &LimitStates,
        due: Option<Timestamp>,
        change: impl FnMut(&mut State, Timestamp) -> R,
    ) -> Option<R> {
        self.states.with(limit, self.key, self.clock, due, change).ok()
    }
}

impl Part<'_> {
    /// Charges the limit for a moment, if the cost still fits then.
    fn charge(&mut self, due: Option<Timestamp>, at: Timestamp) -> Result<(), Decision> {
        let Self { ask, limit, .. } = *self;
        let (Some(charge), LimitStates { transition, .. }) = (ask.charge, limit) else {
            return Ok(());
        };
        let is_present = due.is_none() && at <= ask.now && charge == ask.cost;
        let slot = self.slot.filter(|_| is_present);
        self.epoch = ask.states.epoch();
        if let Some((decision, mark)) =
            slot.and_then(|(slot, gcra)| slot.check(gcra, ask.now, charge))
        {
            if !decision.is_admitted() {
                return Err(decision);
            }
            (self.mark, self.usage) = (Some(mark), decision.usage());
            return Ok(());
        }
        let charged = ask.states.with(limit, ask.key, ask.clock, due, |state, now| {
            let at = at.max(now);
            let wait = transition.wait(state, now, ask.cost);
            if wait.is_none_or(|wait| now.saturating_add(wait) > at) {
                return Err(Decision::refused(transition.usage(state, now), wait));
            }
            let mark = transition.charge(state, now, at, charge);
            Ok((mark, transition.usage(state, now), ask.states.epoch()))
        });
        let charged =
            charged.unwrap_or_else(|full| Err(ask.states.without_state(limit, &full, ask.cost)));
        match charged {
            Ok((mark, usage, epoch)) => {
                (self.mark, self.usage, self.epoch) = (Some(mark), usage, epoch);
                Ok(())
            }
            // The table is full, and admits.
            Err(refusal) if refusal.is_admitted() => {
                ask.states.count_full();
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }
    }
}
