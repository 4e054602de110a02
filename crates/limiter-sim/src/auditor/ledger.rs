//! The admissions of one key by all limits of its policy.

use limiter_core::Policy;

use super::{
    around::Around,
    bound::Bound,
    history::{AdmissionId, Admitted, History, Over},
};
use crate::vocabulary::Micros;

/// The admissions of one key. An admission counts for each limit of the policy, each of which has a bound of its own.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Each has the same admissions, with the same identifiers.
    limits: Vec<History>,
    pub(crate) around: Around,
    /// Before this, nothing is known.
    forgotten: Micros,
}

impl Ledger {
    /// Returns the ledger of a key under the policies of its tiers, of which processes have shares if `share` is their
    /// number. `None` if a share is less than a permit.
    pub(crate) fn new(tiers: &[Policy], ahead: Micros, share: Option<u64>) -> Option<Self> {
        let number = tiers.first()?.limits().len();
        let limits = (0..number).map(|limit| {
            let bounds = bounds(tiers, limit, share)?;
            Some(History::new(bounds, ahead))
        });
        let around = Around { are_several: number > 1, ..Around::default() };
        Some(Self { limits: limits.collect::<Option<_>>()?, around, forgotten: 0 })
    }

    /// Notes that processes may have had shares of another size.
    pub(crate) fn has_share(&mut self, tiers: &[Policy], processes: u64) {
        for (limit, history) in self.limits.iter_mut().enumerate() {
            for (quota, bound) in bounds(tiers, limit, Some(processes)).into_iter().flatten() {
                history.add_bound(quota, bound);
            }
        }
    }

    pub(crate) fn add(&mut self, earliest: Micros, admitted: Admitted) -> Option<AdmissionId> {
        let ids = self.limits.iter_mut().map(|history| history.add(earliest, admitted));
        ids.last()
    }

    /// Subtracts permits that come back from a moment on, or may come back. Returns how many it were.
    pub(crate) fn subtract(&mut self, id: AdmissionId, permits: u64, now: Micros) -> u64 {
        let Self { limits, around, .. } = self;
        let less = limits.iter_mut().map(|history| history.subtract(id, permits, now, around));
        less.last().unwrap_or(0)
    }

    /// Counts permits again that did not come back.
    pub(crate) fn add_again(&mut self, id: AdmissionId, permits: u64) {
        self.limits.iter_mut().for_each(|history| history.add_again(id, permits));
    }

    pub(crate) fn has_incarnation(&mut self, from: Micros, to: Micros) {
        self.limits.iter_mut().for_each(|history| history.has_incarnation(from, to));
    }

    /// Forgets what can't count together with admissions from `now` on.
    pub(crate) fn forget(&mut self, now: Micros) {
        let oldest = self.limits.iter_mut().map(|history| history.forget(now)).min().unwrap_or(0);
        if oldest > self.forgotten {
            self.forgotten = oldest;
            self.around.forget(oldest);
        }
    }

    /// Returns a stretch of time with an admission and with more than the bound of a limit.
    pub(crate) fn over(&self, id: AdmissionId) -> Option<Over> {
        self.limits.iter().find_map(|history| history.over(id, &self.around))
    }
}

/// Returns the bounds of a limit in all tiers, or of the shares of them.
fn bounds(tiers: &[Policy], limit: usize, share: Option<u64>) -> Option<Vec<(usize, Bound)>> {
    let of = |(quota, policy): (usize, &Policy)| {
        let limit = policy.limits().get(limit)?;
        let bound = match share {
            Some(processes) => Bound::of_share(limit, processes)?,
            None => Bound::of(limit)?,
        };
        Some((quota, bound))
    };
    tiers.iter().enumerate().map(of).collect()
}
