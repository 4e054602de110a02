//! Costs to several debts by GCRA, which are all charged without a lock in the common case.

use core::{ops::Range, time::Duration};

use smallvec::SmallVec;

use super::{
    place::{Place, Times},
    tables::Store,
    words::OwnSlot,
};
use crate::{
    Cost, Decision, Timestamp, Usage,
    algorithms::{Gcra, Tat},
    charge::{Charged, Charges},
    ticks::ticks,
};

/// Debts by GCRA, of the limits of a policy or of a list of demands.
#[derive(Default)]
pub(super) struct Debts<'a> {
    debts: SmallVec<[Debt<'a>; 4]>,
    /// Whether all costs fitted.
    are_charged: bool,
}

/// A debt that was read without a lock.
struct Debt<'a> {
    place: Place<'a>,
    gcra: &'a Gcra,
    slot: OwnSlot<'a>,
    /// What has to fit.
    cost: Cost,
    /// What is charged if all fit, `None` if nothing is.
    charge: Option<Cost>,
    /// When it ended as it was read, and once it is charged.
    before: u64,
    after: u64,
    epoch: u64,
    now: Timestamp,
}

impl<'a> Debts<'a> {
    /// Reads a debt. Returns `None` where that takes a lock, or if it was read before.
    #[inline]
    pub(super) fn add(&mut self, place: Place<'a>, cost: Cost, charge: Option<Cost>) -> Option<()> {
        let Some(Store::Words(words, gcra)) = place.store() else {
            return None;
        };
        let (epoch, slot) = (place.tables.epoch(), words.own(place.hash)?);
        let before = slot.word()?;
        if self.debts.iter().any(|it| it.slot.is(slot)) {
            return None;
        }
        let (after, now) = (before, Timestamp::ZERO);
        self.debts.push(Debt { place, gcra, slot, cost, charge, before, after, epoch, now });
        Some(())
    }

    /// Charges all costs if all fit, each by a compare-and-swap, and returns the present of the first one. Returns `None` if
    /// another thread interferes, or if a debt is impossible. Nothing is charged then.
    pub(super) fn charge(&mut self) -> Option<Timestamp> {
        let (mut times, mut fit) = (Times::default(), true);
        for it in &mut self.debts {
            it.now = times.of(&it.place);
            let (decision, after) = it.gcra.check(it.before, ticks(it.now), it.cost)?;
            fit &= decision.is_admitted();
            it.after = match it.charge {
                Some(charge) if charge == it.cost => after,
                Some(charge) => it.gcra.check(it.before, ticks(it.now), charge)?.1,
                None => it.before,
            };
        }
        self.are_charged = fit;
        if fit {
            let raised = self.debts.iter().take_while(|it| it.raise()).count();
            // Those that only ask are compared last: then all others are charged.
            if raised < self.debts.len() || !self.debts.iter().all(Debt::is_as_read) {
                self.debts.iter().take(raised).for_each(Debt::lower);
                return None;
            }
        }
        Some(self.debts.first().map_or(Timestamp::ZERO, |first| first.now))
    }

    /// Returns the decision on the limits of a policy.
    #[inline]
    pub(super) fn decision(&self, limits: Range<usize>) -> Decision {
        let debts = self.debts.get(limits).unwrap_or_default();
        let usage = |(index, it): (usize, &Debt<'_>)| {
            let tat = if self.are_charged { it.after } else { it.before };
            it.gcra.usage(&Tat(Some(tat)), it.now).with_limit_index(index)
        };
        let usages = debts.iter().enumerate().map(usage);
        if self.are_charged {
            return Decision::admitted(Usage::fewest_remaining(usages));
        }
        let wait = |it: &Debt<'_>| it.gcra.wait(&Tat(Some(it.before)), it.now, it.cost);
        let waits = || debts.iter().map(wait);
        match waits().try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?))) {
            Some(Duration::ZERO) => Decision::admitted(Usage::fewest_remaining(usages)),
            longest => Decision::refused(Usage::longest_wait(waits().zip(usages)), longest),
        }
    }

    /// Returns what was charged to the limits of a policy.
    pub(super) fn charged(&self, limits: Range<usize>) -> Option<Charged> {
        let debts = self.debts.get(limits).filter(|_| self.are_charged)?;
        let Debt { now, charge, epoch, .. } = *debts.first()?;
        let marks = debts.iter().map(|it| it.after).collect();
        Some(Charged { charges: Charges { made: now, at: now, cost: charge?, marks }, epoch })
    }
}

impl Debt<'_> {
    /// Charges the debt, and returns whether no other thread has changed it since it was read.
    fn raise(&self) -> bool {
        self.charge.is_none() || self.slot.raise(self.before, self.after)
    }

    /// Returns whether the debt, if nothing is charged, is still that which was read.
    fn is_as_read(&self) -> bool {
        self.charge.is_some() || self.slot.word() == Some(self.before)
    }

    /// Gives back what was just charged. A debt that has replaced an impossible one since counts for it.
    fn lower(&self) {
        if self.charge.is_none() {
            return;
        }
        let left = |now| Tat(Some(self.after)).debt(now) - Tat(Some(self.before)).debt(now);
        let Place { tables, hash, .. } = self.place;
        if let Some(Store::Words(words, _)) = self.place.store() {
            words.lower(hash, left, || tables.epoch() == self.epoch, || self.place.now());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Debts;
    use crate::{Cost, ManualClock, MemoryLimiter, Policy, Quota};

    const SECOND: core::time::Duration = core::time::Duration::from_secs(1);

    /// Returns a limiter of one permit a second with a key that has a slot and no debt, and its hash.
    #[expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
    fn limiter(clock: &ManualClock) -> (MemoryLimiter<ManualClock>, u64) {
        let policy = Policy::gcra("api", Quota::per_second(1));
        let limiter = MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap();
        assert!(limiter.check("key").is_admitted());
        clock.advance(100 * SECOND);
        let hash = limiter.hasher.hash(&"key".into());
        (limiter, hash)
    }

    #[test]
    fn what_is_given_back_late_gives_no_permit_that_has_drained() {
        let clock = ManualClock::new();
        let (limiter, hash) = limiter(&clock);
        let mut debts = Debts::default();
        limiter.add_to(&mut debts, hash, Cost::ONE, Some(Cost::ONE)).unwrap();
        debts.charge().unwrap();
        clock.advance(100 * SECOND);
        assert!(limiter.check("key").is_admitted());
        debts.debts.iter().for_each(super::Debt::lower);
        assert!(!limiter.check("key").is_admitted(), "two permits at one moment");
    }

    #[test]
    fn a_list_is_decided_again_if_a_debt_changes_that_it_only_asks_about() {
        let clock = ManualClock::new();
        let ((asked, of_asked), (charged, of_charged)) = (limiter(&clock), limiter(&clock));
        let mut debts = Debts::default();
        asked.add_to(&mut debts, of_asked, Cost::ONE, None).unwrap();
        charged.add_to(&mut debts, of_charged, Cost::ONE, Some(Cost::ONE)).unwrap();
        assert!(asked.check("key").is_admitted());
        assert_eq!(debts.charge(), None);
        // Nothing was charged.
        assert!(charged.check("key").is_admitted());
    }
}
