//! Whether the waits of refusals are exact.
//!
//! A store refuses a cost at a moment between the question and the answer, and names a wait. As long as no call changes
//! the key, the cost is refused before that moment and the wait have passed, and admitted from then on, by the server's
//! clock. So each later decision of the store can be checked that is the first to change the key, or changes nothing.
//!
//! A cost above the lowest ceiling of paced slots fits some of them. It is refused before the moment, and may be again
//! after it.

use std::collections::BTreeMap;

use super::Auditor;
use crate::{
    algorithms::largest_steady_cost,
    vocabulary::{Micros, Subject},
};

/// How much a wait may be off: it and both moments are rounded to microseconds.
const ROUNDED: Micros = 3;

/// How many refusals of a key are kept.
const KEPT: usize = 16;

/// A decision of the store on a cost, made between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) cost: u64,
    /// By which of the policies that take turns on the key.
    pub(crate) tier: usize,
    pub(crate) asked: Micros,
    pub(crate) answered: Micros,
    pub(crate) answer: Answer,
}

impl Auditor {
    /// Notes a decision of the store on a key whose permits are not leased.
    pub(crate) fn decided(&mut self, subject: Subject, decided: Decided) {
        let policy = self.keys.get(subject.0).and_then(|key| key.tiers.get(decided.tier));
        let is_steady = policy.is_none_or(|it| decided.cost <= largest_steady_cost(it));
        let message = self.waits.decided(subject, decided, is_steady);
        self.found.extend(message.map(|message| (subject, message)));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Admitted for so much later.
    Admitted { delay: Micros },
    /// Refused, for so long unless it is for ever.
    Refused { wait: Option<Micros> },
}

/// The refusals of all keys that can still be compared with later decisions.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    keys: BTreeMap<Subject, Key>,
}

#[derive(Debug, Default)]
struct Key {
    refusals: Vec<Refusal>,
    /// When calls have changed the key since the first of the refusals.
    changes: Vec<Micros>,
    /// Decisions on questions until then are those of another incarnation.
    void_until: Micros,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    cost: u64,
    tier: usize,
    asked: Micros,
    answered: Micros,
    wait: Micros,
}

impl Waits {
    /// Notes that a call has changed a key.
    pub(crate) fn changed(&mut self, subject: Subject, at: Micros) {
        let key = self.keys.entry(subject).or_default();
        key.changes.push(at);
        // The first change may be that of a decision which its caller does not know yet.
        let Key { refusals, changes, .. } = key;
        refusals.retain(|refusal| changes.iter().filter(|at| refusal.asked <= **at).count() <= 1);
        let first = refusals.iter().map(|refusal| refusal.asked).min().unwrap_or(at);
        changes.retain(|at| first <= *at);
    }

    /// Notes that a key had another incarnation until a moment.
    pub(crate) fn are_void_until(&mut self, subject: Subject, until: Micros) {
        let key = self.keys.entry(subject).or_default();
        key.void_until = key.void_until.max(until);
    }

    /// Notes a decision of the store, and returns how it disagrees with a refusal before it. Unless the cost `is_steady`,
    /// it may be refused after it has fitted.
    fn decided(&mut self, subject: Subject, decided: Decided, is_steady: bool) -> Option<String> {
        let key = self.keys.entry(subject).or_default();
        let void_until = key.void_until;
        key.refusals.retain(|refusal| refusal.asked > void_until);
        let Decided { cost, tier, asked, answered, answer } = decided;
        if asked <= void_until {
            return None;
        }
        let disagrees = key.refusals.iter().find_map(|refusal| {
            let changes = key.changes.iter().filter(|at| refusal.asked <= **at);
            refusal.disagrees(&decided, is_steady, changes)
        });
        if let Answer::Refused { wait: Some(wait) } = answer
            && !key.changes.iter().any(|at| asked <= *at)
        {
            if key.refusals.len() == KEPT {
                key.refusals.remove(0);
            }
            key.refusals.push(Refusal { cost, tier, asked, answered, wait });
        }
        disagrees
    }
}

impl Refusal {
    /// Returns how a later decision disagrees, before which the key was changed at these moments.
    fn disagrees<'a>(
        &self,
        decided: &Decided,
        is_steady: bool,
        mut changes: impl Iterator<Item = &'a Micros>,
    ) -> Option<String> {
        let Self { cost, tier, asked, answered, wait } = self;
        let (earliest, latest) = (asked + wait, answered + wait);
        if decided.asked < *answered || decided.tier != *tier {
            return None;
        }
        let about = format!("{cost} permits were refused for {wait} us until {latest} us");
        match (decided.answer, changes.next(), changes.next()) {
            (Answer::Refused { .. }, None, _)
                if is_steady && decided.cost <= *cost && decided.asked > latest + ROUNDED =>
            {
                let (cost, at) = (decided.cost, decided.asked);
                Some(format!("{about}, but {cost} were refused at {at} us"))
            }
            // The only change is that of this decision.
            (Answer::Admitted { delay }, Some(at), None) if decided.asked <= *at => {
                let (cost, at) = (decided.cost, at + delay);
                let is_early = cost >= self.cost && at + ROUNDED < earliest;
                let is_late = is_steady && delay > 0 && cost <= self.cost && at > latest + ROUNDED;
                (is_early || is_late)
                    .then(|| format!("{about}, but {cost} were admitted for {at} us"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::Policy;

    use super::*;

    const KEY: Subject = Subject(0);

    fn refused(cost: u64, at: Micros, wait: Micros) -> Decided {
        let answer = Answer::Refused { wait: Some(wait) };
        Decided { cost, tier: 0, asked: at, answered: at + 10, answer }
    }

    fn admitted(cost: u64, at: Micros, delay: Micros) -> Decided {
        Decided { cost, tier: 0, asked: at, answered: at + 10, answer: Answer::Admitted { delay } }
    }

    /// Returns whether the second decision, whose calls change the key at some moments, disagrees with the first.
    fn disagree(first: Decided, changes: &[Micros], second: Decided) -> bool {
        let mut waits = Waits::default();
        assert!(waits.decided(KEY, first, true).is_none());
        changes.iter().for_each(|at| waits.changed(KEY, *at));
        waits.decided(KEY, second, true).is_some()
    }

    #[test]
    fn a_wait_that_is_too_long_or_too_short_is_found() {
        let first = refused(2, 100, 1_000);
        for (second, is_found) in [
            (refused(2, 1_113, 1), false),
            (refused(2, 1_114, 1), true),
            (refused(1, 1_114, 1), true),
            (refused(3, 1_114, 1), false),
        ] {
            assert_eq!(disagree(first, &[], second), is_found, "{second:?}");
        }
        for (second, is_found) in [
            (admitted(2, 1_090, 0), true),
            (admitted(2, 1_097, 0), false),
            (admitted(3, 1_090, 0), true),
            (admitted(1, 1_090, 0), false),
            (admitted(2, 200, 895), true),
            (admitted(2, 200, 897), false),
            (admitted(2, 200, 913), false),
            (admitted(2, 200, 914), true),
        ] {
            assert_eq!(disagree(first, &[second.asked], second), is_found, "{second:?}");
        }
    }

    #[test]
    fn a_key_that_others_change_says_nothing() {
        let first = refused(2, 100, 1_000);
        assert!(!disagree(first, &[500], refused(2, 1_200, 1)));
        assert!(!disagree(first, &[500, 901], admitted(2, 900, 0)));
        let mut waits = Waits::default();
        waits.decided(KEY, first, true);
        waits.are_void_until(KEY, 600);
        assert!(waits.decided(KEY, refused(2, 1_200, 1), true).is_none());
    }

    #[test]
    fn a_cost_that_fits_some_slots_is_never_early_and_may_be_late() {
        let auditor = || {
            let mut auditor = Auditor::default();
            // The ceilings of its slots are 2, 2 and 3.
            let policy = Policy::parse("paced", "7/s by sub-windows 3 slots paced").unwrap();
            auditor.add(&[policy], 0, false, None);
            auditor
        };
        for (cost, at, is_found) in [(2, 1_200, true), (3, 1_200, false), (3, 1_090, false)] {
            let mut auditor = auditor();
            auditor.decided(KEY, refused(3, 100, 1_000));
            auditor.decided(KEY, refused(cost, at, 1));
            assert_eq!(!auditor.found.is_empty(), is_found, "{cost}, {at}");
        }
        let mut auditor = auditor();
        auditor.decided(KEY, refused(3, 100, 1_000));
        auditor.waits.changed(KEY, 1_090);
        auditor.decided(KEY, admitted(3, 1_090, 0));
        assert!(!auditor.found.is_empty());
    }
}
