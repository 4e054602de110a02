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

/// What an operation charged: as much to each limit, for one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charges {
    pub(crate) made: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) cost: Cost,
    /// Of each limit.
    pub(crate) marks: SmallVec<[u64; 4]>,
}

impl Charges {
    /// Returns when the permits may be used.
    #[must_use]
    #[inline]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns how many permits were charged.
    #[must_use]
    #[inline]
    pub const fn permits(&self) -> u64 {
        self.cost.get()
    }

    /// Returns what was charged to each limit.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Charge> {
        let Self { made, at, cost, ref marks } = *self;
        marks.iter().map(move |mark| Charge { made, at, cost, mark: *mark })
    }
}

impl From<Charge> for Charges {
    #[inline]
    fn from(Charge { made, at, cost, mark }: Charge) -> Self {
        let mut marks = SmallVec::new();
        marks.push(mark);
        Self { made, at, cost, marks }
    }
}

/// What was charged in memory.
pub(crate) struct Charged {
    pub(crate) charges: Charges,
    /// The epoch of the tables in which it was: a refund in a later one gives nothing back.
    pub(crate) epoch: u64,
}
