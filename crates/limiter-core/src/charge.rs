//! What an admission charged, and where a refund finds it.

use core::iter;

use smallvec::SmallVec;

use crate::{Cost, Timestamp};

/// What an admission charged to a limit, for a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it was made.
    pub made: Timestamp,
    /// When the permits may be used.
    pub at: Timestamp,
    /// How many permits were charged.
    pub cost: Cost,
    /// By which a refund finds them in the state, with a meaning of the algorithm's own.
    pub mark: u64,
}

/// A charge in memory.
pub(crate) struct Charged {
    /// To the first limit of the policy.
    pub(crate) charge: Charge,
    /// The marks of the charge in the states of the other limits.
    pub(crate) others: SmallVec<[u64; 1]>,
    /// The [epoch](crate::memory) in which it was made.
    pub(crate) epoch: u64,
}

impl Charged {
    /// Returns a charge to a policy of one limit.
    pub(crate) fn one(charge: Charge, epoch: u64) -> Self {
        Self { charge, others: SmallVec::new(), epoch }
    }

    /// Returns the charge to each limit.
    pub(crate) fn of_each_limit(&self) -> impl Iterator<Item = Charge> {
        let others = self.others.iter().map(|mark| Charge { mark: *mark, ..self.charge });
        iter::once(self.charge).chain(others)
    }
}
