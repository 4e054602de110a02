//! What an admission charged, and where a refund finds it.

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

/// What an operation charged: as much to each limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charges(pub(crate) SmallVec<[Charge; 1]>);

impl Charges {
    /// Returns when the permits may be used.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Timestamp {
        self.0.first().map_or(Timestamp::ZERO, |charge| charge.at)
    }

    /// Returns how many permits were charged.
    #[must_use]
    #[inline]
    pub fn permits(&self) -> u64 {
        self.0.first().map_or(0, |charge| charge.cost.get())
    }
}

impl From<Charge> for Charges {
    #[inline]
    fn from(charge: Charge) -> Self {
        Self(SmallVec::from_buf([charge]))
    }
}

/// What was charged in memory.
pub(crate) struct Charged {
    pub(crate) charges: Charges,
    /// The [epoch](crate::memory) in which it was.
    pub(crate) epoch: u64,
}
