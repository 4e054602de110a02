//! Whether a limiter's counters agree with what its callers saw and with what its server granted.
//!
//! What can't be known from outside, and is allowed for:
//!
//! - An operation whose caller has left, or was killed with its process, may be counted as a decision, as a failure, or
//!   not at all if it was not sent.
//! - A part of a list that failed or was refused, and is not refused itself, may have been charged and refunded; and the
//!   error of a list's call counts once, for the limiter of its first part.
//! - A peek by a share has failed at the store, and does not show that.
//! - Permits that a waiter or a list gives back are refunded without a caller. If that fails, it is counted among the
//!   refunds that failed as well as among the failures.
//! - A request ahead for a lease has no caller, so a limiter that leases may count more failures than its callers saw.

use limiter_core::{Decision, Error, ErrorKind, Source};
use limiter_redis::Counters;

use super::grants::Sum;

/// What the callers of one limiter in one process saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations that were begun, and those that have ended for their callers.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Decisions by the store, a lease or a cached denial.
    pub(crate) decided: u64,
    /// Decisions by the process's share.
    pub(crate) fell_back: u64,
    /// Errors, apart from those of lists.
    pub(crate) failed: Failed,
    /// Refunds among them.
    pub(crate) refunds_failed: u64,
    /// Operations whose callers have left.
    pub(crate) left: u64,
    /// Parts of lists of which it is not known what was counted.
    pub(crate) unknown_parts: u64,
    /// Peeks that were answered.
    pub(crate) peeks: u64,
}

/// Errors by their kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failed {
    unavailable: u64,
    undetermined: u64,
    unexpected: u64,
}

impl Failed {
    pub(crate) const fn add(&mut self, kind: ErrorKind) {
        match kind {
            ErrorKind::Unavailable => self.unavailable += 1,
            ErrorKind::Undetermined => self.undetermined += 1,
            _ => self.unexpected += 1,
        }
    }

    const fn all(self) -> u64 {
        self.unavailable + self.undetermined + self.unexpected
    }
}

/// What is known of a limiter besides what its callers saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Whether it leases permits.
    pub(crate) leases: bool,
    /// What its server has granted by leases.
    pub(crate) granted: Sum,
    /// Whether all leases have ended or were given back.
    pub(crate) has_ended: bool,
}

impl Tally {
    /// Notes the answer to a check.
    pub(crate) fn ends(&mut self, answer: &Result<Decision, Error>) {
        self.ended += 1;
        match answer {
            Ok(decision) if decision.source() == Source::Local => self.fell_back += 1,
            Ok(_) => self.decided += 1,
            Err(error) => self.failed.add(error.kind()),
        }
    }

    /// Returns what does not agree.
    pub(crate) fn disagrees(&self, counters: &Counters, known: Known) -> Option<String> {
        let message = self
            .decisions(counters)
            .or_else(|| self.failures(counters, known))
            .or_else(|| leases(counters, known))?;
        Some(format!("{message}; its callers saw {self:?}, and it has counted {counters:?}"))
    }

    /// Operations that may have been counted in any way, or not at all.
    const fn unknown(&self) -> u64 {
        self.left + (self.begun - self.ended) + self.unknown_parts
    }

    fn decisions(&self, counters: &Counters) -> Option<String> {
        let decided = counters.admitted + counters.refused + counters.cached;
        let unknown = self.unknown();
        within("decisions", decided, (self.decided, self.decided + unknown))
    }

    /// Each operation that failed or fell back is counted once, by the kind of its error or as one that the breaker
    /// refused.
    fn failures(&self, counters: &Counters, Known { leases, .. }: Known) -> Option<String> {
        let Counters { unavailable, undetermined, unexpected, short_circuited, .. } = counters;
        let unknown = self.unknown();
        let refunds = counters.refunds_failed;
        let most = if leases || unknown > 0 { u64::MAX } else { self.refunds_failed };
        let refunds_failed = within("failed refunds", refunds, (self.refunds_failed, most));
        if refunds_failed.is_some() {
            return refunds_failed;
        }
        let without_caller = refunds - self.refunds_failed;
        let failures = unavailable + undetermined + unexpected + short_circuited;
        let seen = self.failed.all() + self.fell_back + without_caller;
        // A list that fell back counts each of its parts, and one error. Its caller may have left.
        let least = seen.saturating_sub(unknown);
        let most = if leases { u64::MAX } else { seen + unknown + self.peeks };
        within("failures", failures, (least, most)).or_else(|| {
            if leases {
                return None;
            }
            let of = self.failed;
            let kinds = [
                ("unavailable operations", unavailable + short_circuited, of.unavailable),
                ("undetermined operations", *undetermined, of.undetermined),
                ("unexpected replies", *unexpected, of.unexpected),
            ];
            kinds
                .into_iter()
                .find_map(|(name, counted, seen)| within(name, counted, (seen, u64::MAX)))
        })
    }
}

/// Each lease that the server granted is counted, and each of its permits as spent, unused or given back.
fn leases(counters: &Counters, known: Known) -> Option<String> {
    let Sum { grants, permits } = known.granted;
    let (grants, permits) = ((grants, grants), (permits, permits));
    let spent = counters.leased + counters.lease_unused + counters.lease_returned;
    let all = counters.lease_permits;
    let ended = (if known.has_ended { all } else { 0 }, all);
    within("leases", counters.leases, grants)
        .or_else(|| within("permits of leases", all, permits))
        .or_else(|| within("permits of leases that have ended", spent, ended))
}

/// Returns a message if a number is not between two others.
fn within(name: &str, counted: u64, (least, most): (u64, u64)) -> Option<String> {
    let expected = match (least == most, most) {
        (true, _) => least.to_string(),
        (false, u64::MAX) => format!("at least {least}"),
        (false, _) => format!("{least} to {most}"),
    };
    let is_within = least <= counted && counted <= most;
    (!is_within).then(|| format!("the limiter has counted {counted} {name}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(set: impl FnOnce(&mut Counters)) -> Counters {
        let mut counters = Counters::default();
        set(&mut counters);
        counters
    }

    fn disagrees(tally: Tally, known: Known, set: impl FnOnce(&mut Counters)) -> bool {
        tally.disagrees(&counters(set), known).is_some()
    }

    #[test]
    fn each_decision_is_counted_once() {
        let tally = Tally { decided: 3, fell_back: 0, ..Tally::default() };
        for (admitted, is_found) in [(2, true), (3, false), (4, true)] {
            assert_eq!(disagrees(tally, Known::default(), |it| it.admitted = admitted), is_found);
        }
        let tally = Tally { left: 1, ..tally };
        assert!(!disagrees(tally, Known::default(), |it| it.admitted = 4));
    }

    #[test]
    fn each_failure_is_counted_once() {
        let mut failed = Failed::default();
        failed.add(ErrorKind::Unavailable);
        failed.add(ErrorKind::Undetermined);
        let tally = Tally { failed, refunds_failed: 1, ..Tally::default() };
        for (counted, is_found) in [((1, 1, 1), false), ((1, 0, 1), true), ((1, 2, 1), true)] {
            let set = |it: &mut Counters| {
                (it.unavailable, it.undetermined, it.refunds_failed) = counted;
            };
            assert_eq!(disagrees(tally, Known::default(), set), is_found, "{counted:?}");
        }
        let set = |it: &mut Counters| (it.undetermined, it.refunds_failed) = (2, 1);
        assert!(disagrees(tally, Known::default(), set), "the kind is another");
        let tally = Tally { fell_back: 1, ..Tally::default() };
        for (unavailable, is_found) in [(0, true), (1, false), (2, true)] {
            let set = |it: &mut Counters| it.unavailable = unavailable;
            assert_eq!(disagrees(tally, Known::default(), set), is_found, "{unavailable}");
            let peeked = Tally { peeks: 1, ..tally };
            assert_eq!(disagrees(peeked, Known::default(), set), unavailable == 0);
        }
    }

    #[test]
    fn a_part_of_a_list_may_fall_back_without_a_failure_of_its_own() {
        for (left, is_found) in [(0, true), (1, false)] {
            let tally = Tally { fell_back: 2, left, ..Tally::default() };
            let set = |it: &mut Counters| it.unavailable = 1;
            assert_eq!(disagrees(tally, Known::default(), set), is_found, "{left}");
        }
    }

    #[test]
    fn each_waiter_that_fails_is_counted() {
        let mut failed = Failed::default();
        (0..3).for_each(|_| failed.add(ErrorKind::Undetermined));
        let tally = Tally { failed, ..Tally::default() };
        let known = Known { leases: true, ..Known::default() };
        assert!(disagrees(tally, known, |it| it.undetermined = 1));
        assert!(!disagrees(tally, known, |it| it.undetermined = 3));
    }

    #[test]
    fn each_permit_of_a_lease_is_counted_once() {
        let sum = |grants, permits| Sum { grants, permits };
        let granted = sum(1, 9);
        let known = Known { leases: true, granted, has_ended: true };
        let set = |returned| {
            move |it: &mut Counters| {
                (it.leases, it.lease_permits) = (1, 9);
                (it.leased, it.lease_unused, it.lease_returned) = (4, 2, returned);
            }
        };
        assert!(!disagrees(Tally::default(), known, set(3)));
        assert!(disagrees(Tally::default(), known, set(2)));
        let more = sum(1, 10);
        assert!(disagrees(Tally::default(), Known { granted: more, ..known }, set(3)));
    }
}
