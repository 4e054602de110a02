//! The decision over several demands.

use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;

use crate::{Decision, Receipt, Reservation};

/// The decision over several demands: an admission if all fit and those that charge are charged, otherwise a refusal
/// that has charged nothing. See [`decide`](crate::decide).
#[derive(Debug, Default)]
#[must_use = "a request is limited only if its decision is acted on"]
pub struct JointDecision {
    /// One for each demand; `None` if it was not asked.
    pub(crate) decisions: SmallVec<[Option<Decision>; 4]>,
    /// Of what was charged, each with the index of its demand.
    pub(crate) receipts: Vec<(usize, Receipt)>,
}

impl JointDecision {
    /// Returns whether all demands fit.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.decisions.iter().all(|it| it.is_some_and(|it| it.is_admitted()))
    }

    /// Returns the time until the refusing demands fit, if nothing else is charged meanwhile: the longest of their
    /// waits, zero for an admission, and `None` if one of them can never fit. It may be too short with a paced window of
    /// which some slots have no room for the cost.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.refusing().map(|(_, decision)| decision.retry_after());
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Returns the number of demands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Returns whether there were no demands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Returns the decision on the demand at an index of the list. In a refusal, an admission means that the demand
    /// would have fitted; its usage is without the charge. `None` if the list has no such index, or if the demand was not
    /// asked, because others had refused.
    #[must_use]
    pub fn decision(&self, index: usize) -> Option<Decision> {
        *self.decisions.get(index)?
    }

    /// Returns each demand that refused: its index in the list, and its decision. Its wait is that of the demand alone; a
    /// store that decides several demands in turn may report an upper bound for one that only asks.
    pub fn refusing(&self) -> impl Iterator<Item = (usize, Decision)> {
        let decisions = (0..self.len()).filter_map(|index| Some((index, self.decision(index)?)));
        decisions.filter(|(_, decision)| !decision.is_admitted())
    }

    /// Returns the receipts of what was charged, each with the index of its demand, in the order of the list, for
    /// [`Limiter::refund`](crate::Limiter::refund) of the demand's limiter. There are none after a refusal, and of demands
    /// [without a receipt](crate::Demand::without_receipt); only a store that decides on the whole list by one call may
    /// return some for these.
    pub fn into_receipts(self) -> impl Iterator<Item = (usize, Receipt)> {
        self.receipts.into_iter()
    }

    /// Returns this decision on the demands that were merged, one for each place in the caller's list. The first demand
    /// of a place has its receipt.
    pub(crate) fn split(self, places: &[usize]) -> Self {
        let decisions = places.iter().map(|&place| self.decision(place)).collect();
        let first = |merged| places.iter().position(|&place| place == merged);
        let receipts = self.receipts.into_iter();
        let receipts = receipts.filter_map(|(place, receipt)| Some((first(place)?, receipt)));
        Self { decisions, receipts: receipts.collect() }
    }
}

/// One element for each demand of a list, in its order; `None` for a demand that was not asked. For stores, which return
/// it from [`Store::decide_together`](crate::Store::decide_together): a demand that fits and is not charged is
/// [uncounted](Reservation::uncounted), and after a refusal no element has a receipt.
impl FromIterator<Option<Reservation>> for JointDecision {
    fn from_iter<I: IntoIterator<Item = Option<Reservation>>>(demands: I) -> Self {
        let mut joint = Self::default();
        for (index, reservation) in demands.into_iter().enumerate() {
            joint.decisions.push(reservation.as_ref().map(Reservation::decision));
            let receipt = reservation.and_then(Reservation::into_receipt);
            joint.receipts.extend(receipt.map(|receipt| (index, receipt)));
        }
        joint
    }
}
