//! The admissions of one key by one limit, and whether they were too many.

use std::collections::BTreeMap;

use super::{around::Around, bound::Bound};
use crate::vocabulary::Micros;

/// Permits that were admitted together. All times are those that have passed by the server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) permits: u64,
    /// When they count, at the latest.
    pub(crate) latest: Micros,
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

/// The admissions of one key by one limit that can still count.
///
/// The stretches of time that are checked begin at the earliest moment of an admission, and end at the latest moment of
/// one. An admission is in such a stretch if all moments at which it can count are. So a key that is over by this
/// history was over whenever each admission did count; and one that was over by a few permits may not be found.
#[derive(Debug)]
pub(crate) struct History {
    /// The bounds of the quotas that take turns, each with the number of its quota.
    bounds: Vec<(usize, Bound)>,
    /// How long before it counts an admission may have been charged: as a lease, or as a reservation.
    ahead: Micros,
    admissions: BTreeMap<AdmissionId, Admitted>,
    added: u64,
    /// Admissions before this are forgotten.
    oldest: Micros,
    /// From when to when the key had another incarnation, beside the one that goes on: each has a bound of its own. Where
    /// the key became fresh or older without a recovery, both are one moment.
    incarnations: Vec<(Micros, Micros)>,
    /// When refunds began that may have given back later charges, and of how many permits.
    late_refunds: Vec<(Micros, u64)>,
}

/// How long a call may be under way.
pub(super) const UNDER_WAY: Micros = 5_000_000;

impl History {
    pub(crate) fn new(bounds: Vec<(usize, Bound)>, ahead: Micros) -> Self {
        let (admissions, incarnations, late_refunds) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { bounds, ahead, admissions, added: 0, oldest: 0, incarnations, late_refunds }
    }

    /// Adds a bound of a quota.
    pub(crate) fn add_bound(&mut self, quota: usize, bound: Bound) {
        self.bounds.push((quota, bound));
    }

    /// Adds permits that count from `earliest` on.
    pub(crate) fn add(&mut self, earliest: Micros, admitted: Admitted) -> AdmissionId {
        self.added += 1;
        let id = AdmissionId { earliest, number: self.added };
        self.admissions.insert(id, admitted);
        id
    }

    /// Subtracts permits that come back from a moment on, or may come back. Returns how many it were.
    pub(crate) fn subtract(
        &mut self,
        id: AdmissionId,
        permits: u64,
        now: Micros,
        around: &Around,
    ) -> u64 {
        let charged_from = id.earliest.saturating_sub(self.ahead);
        let is_older = self.incarnations.iter().any(|(_, to)| charged_from <= *to);
        let is_rate = matches!(self.bounds.first(), Some((_, Bound::Rate { .. })));
        // Law 7: one of several limits by GCRA drains while another one delays a reservation.
        let drains = is_rate && around.are_several && around.has_reservation(now);
        if is_older || drains {
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

    /// Forgets now and then the admissions that can't be in a stretch with one from `now` on, and returns since when what
    /// else is known has to be kept. Incarnations are few, and are kept.
    pub(crate) fn forget(&mut self, now: Micros) -> Micros {
        let window = self.bounds.iter().map(|(_, bound)| bound.window()).max().unwrap_or(0);
        let oldest = now.saturating_sub(3 * window + 5_000_000);
        if oldest > self.oldest + 1_000_000 {
            self.oldest = oldest;
            self.admissions.retain(|_, admission| admission.latest >= oldest);
        }
        self.oldest.saturating_sub(self.ahead)
    }

    /// Returns a stretch of time with an admission and with more than the bound.
    pub(crate) fn over(&self, id: AdmissionId, around: &Around) -> Option<Over> {
        let admission = self.admissions.get(&id)?;
        let later = self.admissions.values().map(|other| other.latest);
        let mut ends: Vec<Micros> = later.filter(|latest| *latest > admission.latest).collect();
        ends.push(admission.latest);
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().find_map(|to| self.over_until(id, to, around))
    }

    /// Returns such a stretch that ends at `to`.
    fn over_until(&self, id: AdmissionId, to: Micros, around: &Around) -> Option<Over> {
        let longest = self.bounds.iter().map(|(_, bound)| bound.longest()).max()?;
        let mut permits = 0;
        for (other, admission) in self.admissions.iter().rev() {
            // Microseconds by two clocks are rounded.
            let from = other.earliest.min(to);
            if admission.latest > to {
                continue;
            }
            permits += admission.permits;
            if to - from > longest {
                return None;
            }
            // Without this admission, the stretch was checked before.
            if from > id.earliest || !self.may_be_over(permits, to - from) {
                continue;
            }
            if let Some(bound) = self.exceeded(permits, from, to, around) {
                return Some(Over { permits, bound, from, to });
            }
        }
        None
    }

    /// Returns whether so many permits exceed the bound of one of the quotas.
    fn may_be_over(&self, permits: u64, stretch: Micros) -> bool {
        let is_over = |bound: &Bound| bound.within(stretch, 0).is_none_or(|most| permits > most);
        self.bounds.iter().any(|(_, bound)| is_over(bound))
    }

    /// Returns the most permits that may count in a stretch, if these are more.
    fn exceeded(&self, permits: u64, from: Micros, to: Micros, around: &Around) -> Option<u64> {
        let charged_from = from.saturating_sub(self.ahead);
        let used = around.uses.within(charged_from, to);
        let quotas = self.bounds.iter().filter(|(quota, _)| used == 0 || used & (1 << quota) != 0);
        let quotas: Vec<Bound> = quotas.map(|(_, bound)| *bound).collect();
        let stretch = to - from;
        // Quotas add up, because each may have a span of its own.
        let within = |quotas: &[Bound], overshoot| {
            quotas.iter().map(|quota| quota.within(stretch, overshoot)).sum::<Option<u64>>()
        };
        // Most stretches are within this already.
        if permits <= within(&quotas, 0)? {
            return None;
        }
        let is_rate = quotas.iter().any(|quota| matches!(quota, Bound::Rate { .. }));
        let overshoot = around.overshoot(charged_from, to, is_rate);
        let bound = within(&quotas, overshoot)?;
        let bound = bound.saturating_mul(1 + self.incarnations_within(from, to));
        let bound = bound.saturating_add(self.late_refunds_within(from, to));
        (permits > bound).then_some(bound)
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
mod tests;
