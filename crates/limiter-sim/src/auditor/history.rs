//! The admissions of one key, and whether they were too many.

use crate::vocabulary::Micros;
use std::collections::BTreeMap;

use super::bound::Bound;

/// Permits that were admitted together. All times are those that have passed by the server's clock.
#[derive(Clone, Copy, Debug)]
struct Admission {
    latest: Micros,
    permits: u64,
}

/// An admission: the earliest moment at which it can count, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AdmissionId {
    earliest: Micros,
    number: u64,
}

/// Too many permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub(crate) permits: u64,
    pub(crate) bound: u64,
    pub(crate) from: Micros,
    pub(crate) to: Micros,
}

/// The admissions of one key that can still count.
///
/// The stretches of time that are checked begin at the earliest moment of an admission, and end at the latest moment of
/// one. An admission is in such a stretch if all moments at which it can count are. So a key that is over by this
/// history was over whenever each admission did count; and one that was over by a few permits may not be found.
#[derive(Debug)]
pub(crate) struct History {
    bound: Bound,
    /// How long before it counts an admission may have been charged: as a lease, or as a reservation.
    ahead: Micros,
    admissions: BTreeMap<AdmissionId, Admission>,
    added: u64,
    /// Admissions before this are forgotten.
    oldest: Micros,
    /// From when to when the key had another incarnation, beside the one that goes on: each has a bound of its own. Where
    /// the key became fresh or older without a recovery, both are one moment.
    incarnations: Vec<(Micros, Micros)>,
    /// When refunds began by receipts from before an incarnation, and of how many permits.
    late_refunds: Vec<(Micros, u64)>,
}

/// How long a call may be under way.
const UNDER_WAY: Micros = 5_000_000;

impl History {
    pub(crate) fn new(bound: Bound, ahead: Micros) -> Self {
        let (admissions, incarnations, late_refunds) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { bound, ahead, admissions, added: 0, oldest: 0, incarnations, late_refunds }
    }

    /// Adds permits that count from `earliest` to `latest`.
    pub(crate) fn add(&mut self, permits: u64, earliest: Micros, latest: Micros) -> AdmissionId {
        self.added += 1;
        let id = AdmissionId { earliest, number: self.added };
        self.admissions.insert(id, Admission { latest, permits });
        id
    }

    /// Subtracts permits that come back from a moment on, or may come back. Returns how many it were.
    pub(crate) fn subtract(&mut self, id: AdmissionId, permits: u64, now: Micros) -> u64 {
        let is_late = self.incarnations.iter().any(|(_, to)| id.earliest <= *to);
        if is_late {
            self.late_refunds.push((now, permits));
        }
        let Some(admission) = self.admissions.get_mut(&id) else { return 0 };
        let less = permits.min(admission.permits);
        admission.permits -= less;
        less
    }

    /// Counts permits again that did not come back.
    pub(crate) fn add_again(&mut self, id: AdmissionId, permits: u64) {
        if let Some(admission) = self.admissions.get_mut(&id) {
            admission.permits += permits;
        }
    }

    /// Notes that the key had another incarnation.
    pub(crate) fn has_incarnation(&mut self, from: Micros, to: Micros) {
        self.incarnations.push((from, to));
    }

    /// Forgets admissions that can't be in a stretch with one from `now` on. Incarnations are few, and are kept.
    pub(crate) fn forget(&mut self, now: Micros) {
        let oldest = now.saturating_sub(3 * self.bound.window() + 5_000_000);
        if oldest > self.oldest + 1_000_000 {
            self.oldest = oldest;
            self.admissions.retain(|_, admission| admission.latest >= oldest);
        }
    }

    /// Returns a stretch of time with an admission and with more than the bound.
    pub(crate) fn over(&self, id: AdmissionId) -> Option<Over> {
        let admission = self.admissions.get(&id)?;
        let later = self.admissions.values().map(|other| other.latest);
        let mut ends: Vec<Micros> = later.filter(|latest| *latest > admission.latest).collect();
        ends.push(admission.latest);
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().find_map(|to| self.over_until(id, to))
    }

    /// Returns such a stretch that ends at `to`.
    fn over_until(&self, id: AdmissionId, to: Micros) -> Option<Over> {
        let mut permits = 0;
        for (other, admission) in self.admissions.iter().rev() {
            let from = other.earliest;
            if admission.latest > to {
                continue;
            }
            permits += admission.permits;
            let bound = self.bound.within(to.saturating_sub(from))?;
            let bound = bound * (1 + self.incarnations_within(from, to));
            let bound = bound + self.late_refunds_within(from, to);
            // Without this admission, the stretch was checked before.
            if from <= id.earliest && permits > bound {
                return Some(Over { permits, bound, from, to });
            }
        }
        None
    }

    fn incarnations_within(&self, from: Micros, to: Micros) -> u64 {
        let from = from.saturating_sub(self.ahead);
        let overlaps = |other: &&(Micros, Micros)| other.0 <= to && from <= other.1;
        self.incarnations.iter().filter(overlaps).count() as u64
    }

    /// Returns how many permits refunds may have given back that were charged by others.
    fn late_refunds_within(&self, from: Micros, to: Micros) -> u64 {
        let overlaps = |(at, _): &&(Micros, u64)| *at <= to && from <= at + UNDER_WAY;
        self.late_refunds.iter().filter(overlaps).map(|(_, permits)| permits).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Micros = 1_000_000;

    fn log(permits: u64) -> History {
        History::new(Bound::Window { permits, window: WINDOW }, 0)
    }

    #[test]
    fn more_than_the_limit_in_a_window_is_found() {
        let mut history = log(2);
        for at in [0, WINDOW / 2, WINDOW] {
            let id = history.add(1, at, at);
            assert!(history.over(id).is_none(), "{at}");
        }
        let id = history.add(1, WINDOW + 1, WINDOW + 1);
        let over = history.over(id).unwrap();
        assert_eq!((over.permits, over.bound, over.from), (3, 2, WINDOW / 2));
    }

    #[test]
    fn more_than_the_burst_and_the_rate_is_found() {
        let bound = Bound::Rate { burst: 2, permits: 10, window: WINDOW };
        let mut history = History::new(bound, 0);
        for at in [0, 0, 100_000, 200_000] {
            let id = history.add(1, at, at);
            assert!(history.over(id).is_none(), "{at}");
        }
        let id = history.add(1, 299_000, 299_000);
        assert!(history.over(id).is_some());
    }

    #[test]
    fn an_admission_counts_where_all_its_moments_are() {
        let mut history = log(1);
        history.add(1, 0, 0);
        let late = history.add(1, 500_000, 2_000_000);
        assert!(history.over(late).is_none(), "it may count a window later");
        let id = history.add(1, 600_000, 600_000);
        assert!(history.over(id).is_some());
    }

    #[test]
    fn what_came_back_was_never_admitted() {
        let mut history = log(1);
        let first = history.add(1, 0, 0);
        assert_eq!(history.subtract(first, 5, 5), 1);
        let second = history.add(1, 10, 10);
        assert!(history.over(second).is_none());
        history.add_again(first, 1);
        assert!(history.over(first).is_some());
    }

    #[test]
    fn what_is_forgotten_is_neither_counted_nor_checked() {
        let mut history = log(1);
        let first = history.add(1, 0, 0);
        history.subtract(first, 1, 0);
        // It began before the others, and may count for long.
        history.add(1, 0, 30_000_000);
        history.forget(20_000_000);
        history.add_again(first, 1);
        assert!(history.over(first).is_none());
        assert_eq!(history.admissions.len(), 1);
    }

    #[test]
    fn a_receipt_from_before_an_incarnation_may_give_back_what_others_were_charged() {
        let mut history = log(1);
        let old = history.add(1, 0, 0);
        history.has_incarnation(5, 5);
        history.add(1, 2 * WINDOW, 2 * WINDOW);
        history.subtract(old, 1, 2 * WINDOW + 1);
        let id = history.add(1, 2 * WINDOW + 2, 2 * WINDOW + 2);
        assert!(history.over(id).is_none());
        let id = history.add(1, 2 * WINDOW + 3, 2 * WINDOW + 3);
        assert!(history.over(id).is_some());
    }

    #[test]
    fn an_incarnation_has_a_bound_of_its_own() {
        let mut history = log(1);
        history.add(1, 0, 0);
        history.has_incarnation(5, 5);
        let id = history.add(1, 10, 10);
        assert!(history.over(id).is_none());
        let id = history.add(1, 20, 20);
        assert!(history.over(id).is_some());
    }
}
