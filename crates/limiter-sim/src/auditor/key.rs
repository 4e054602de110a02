//! The admissions of one key, and whether they were too many.

use std::collections::BTreeMap;

use limiter_core::Policy;

use super::bound::Bound;
use crate::vocabulary::Micros;

/// An admission: the earliest moment at which it can count, and its number.
pub(crate) type Id = (Micros, u64);

/// Permits that were admitted together.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    permits: u64,
    /// When they count, at the latest.
    latest: Micros,
}

/// The admissions of one key that can still count.
///
/// The stretches of time that are checked begin at the earliest moment of an admission, and end at the latest moment of
/// one. An admission is in such a stretch if all moments at which it can count are. So a key that is over by this
/// history was over whenever each admission did count; and one that was over by a few permits may not be found.
#[derive(Debug)]
pub(crate) struct Key {
    /// For each limit of the policies, the bounds of the quotas that take turns.
    limits: Vec<Vec<Bound>>,
    /// Which of the quotas were used.
    used: Vec<bool>,
    /// How long before it counts a leased permit may have been charged.
    ahead: Micros,
    admissions: BTreeMap<Id, Admitted>,
    added: u64,
    /// Nothing counts that was asked for before.
    void_until: Micros,
    reserved_until: Micros,
    /// Before this, admissions are forgotten.
    oldest: Micros,
}

impl Key {
    pub(super) fn new(tiers: &[Policy], ahead: Micros) -> Self {
        let number = tiers.first().map_or(0, |policy| policy.limits().len());
        let bounds = |limit: usize| {
            let limits = tiers.iter().filter_map(|policy| policy.limits().get(limit));
            limits.map(Bound::of).collect()
        };
        Self {
            limits: (0..number).map(bounds).collect(),
            used: vec![false; tiers.len()],
            ahead,
            admissions: BTreeMap::new(),
            added: 0,
            void_until: 0,
            reserved_until: 0,
            oldest: 0,
        }
    }

    pub(super) fn uses(&mut self, tier: usize) {
        if let Some(used) = self.used.get_mut(tier) {
            *used = true;
        }
    }

    pub(super) const fn is_void(&self, asked: Micros) -> bool {
        asked < self.void_until
    }

    /// Lets nothing count that is asked for before a moment, or could have been leased before.
    pub(super) fn voids(&mut self, until: Micros) {
        self.void_until = self.void_until.max(until + self.ahead);
        self.admissions.clear();
    }

    pub(super) fn reserves(&mut self, until: Micros, delay: Micros) {
        if delay > 0 {
            self.reserved_until = self.reserved_until.max(until);
        }
    }

    /// Returns whether one of several limits drains while another one delays a reservation.
    pub(super) fn drains(&self, now: Micros) -> bool {
        let is_rate = |bounds: &Vec<Bound>| matches!(bounds.first(), Some(Bound::Rate { .. }));
        self.limits.len() > 1 && self.limits.iter().any(is_rate) && now <= self.reserved_until
    }

    pub(super) fn add(&mut self, earliest: Micros, latest: Micros, permits: u64) -> Id {
        self.added += 1;
        self.admissions.insert((earliest, self.added), Admitted { permits, latest });
        let longest = self.limits.iter().flatten().map(|bound| bound.longest()).max().unwrap_or(0);
        let oldest = earliest.saturating_sub(longest + 5_000_000);
        // Now and then, because it looks at all.
        if oldest > self.oldest + 1_000_000 {
            self.oldest = oldest;
            self.admissions.retain(|_, admission| admission.latest >= oldest);
        }
        (earliest, self.added)
    }

    /// Subtracts permits that may come back, and returns how many it were.
    pub(super) fn subtract(&mut self, id: Id, permits: u64) -> u64 {
        let Some(admission) = self.admissions.get_mut(&id) else { return 0 };
        let less = permits.min(admission.permits);
        admission.permits -= less;
        less
    }

    /// Counts permits again that did not come back.
    pub(super) fn add_again(&mut self, id: Id, permits: u64) {
        self.admissions.entry(id).and_modify(|admission| admission.permits += permits);
    }

    /// Returns a stretch of time with an admission and with more than the bound of a limit, in words.
    pub(super) fn over(&self, id: Id) -> Option<String> {
        self.limits.iter().find_map(|tiers| {
            let used = tiers.iter().zip(&self.used).filter(|(_, is_used)| **is_used);
            self.over_limit(&used.map(|(bound, _)| *bound).collect::<Vec<_>>(), id)
        })
    }

    fn over_limit(&self, bounds: &[Bound], id: Id) -> Option<String> {
        let first = self.admissions.get(&id)?.latest;
        let longest = bounds.iter().map(|bound| bound.longest()).max()?;
        let ends = self.admissions.values().map(|other| other.latest);
        let mut ends: Vec<Micros> = ends.filter(|latest| *latest >= first).collect();
        ends.sort_unstable();
        ends.dedup();
        for to in ends {
            let mut permits = 0;
            for (other, admission) in self.admissions.iter().rev() {
                if admission.latest > to {
                    continue;
                }
                // Microseconds by two clocks are rounded.
                let from = other.0.min(to);
                permits += admission.permits;
                if to - from > longest {
                    break;
                }
                // Without this admission, the stretch was checked before. Quotas add up: each may have a span of its own.
                let most = bounds.iter().map(|bound| bound.within(to - from)).sum::<Option<u64>>();
                if let Some(most) = most.filter(|most| from <= id.0 && permits > *most) {
                    return Some(format!(
                        "{permits} permits were admitted in {} us, but at most {most} may be (until {to} us by the servers' \
                         clock)",
                        to - from
                    ));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(policies: &[&str]) -> Key {
        let policies: Vec<_> =
            policies.iter().map(|text| Policy::parse("limit", text).unwrap()).collect();
        let mut key = Key::new(&policies, 0);
        key.uses(0);
        key
    }

    #[test]
    fn a_permit_above_the_bound_is_found_when_all_have_counted() {
        let mut key = key(&["2/s burst 2"]);
        for (earliest, latest, is_over) in
            [(0, 10, false), (5, 20, false), (490_000, 600_000, false), (500, 700, true)]
        {
            let id = key.add(earliest, latest, 1);
            assert_eq!(key.over(id).is_some(), is_over, "{earliest}");
        }
    }

    #[test]
    fn refunds_voids_and_other_quotas_are_not_over() {
        let mut key = key(&["2/s by fixed-window", "3/s by fixed-window"]);
        let id = key.add(0, 1, 4);
        assert!(key.over(id).is_none());
        let more = key.add(2, 3, 1);
        assert!(key.over(more).is_some());
        assert_eq!(key.subtract(id, 9), 4);
        assert!(key.over(more).is_none());
        key.add_again(id, 4);
        assert!(key.over(id).is_some());
        key.uses(1);
        assert!(key.over(id).is_none());
        key.voids(5);
        assert!(key.is_void(4) && !key.is_void(5) && key.over(id).is_none());
    }
}
