//! What an admission charged, and where a refund finds it.

use crate::{Cost, Timestamp, algorithms::Charges};

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

/// What was charged in memory.
pub(crate) struct Charged {
    pub(crate) charges: Charges,
    /// The [epoch](crate::memory) in which it was.
    pub(crate) epoch: u64,
}
