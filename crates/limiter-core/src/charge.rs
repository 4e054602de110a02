//! What an admission charged, and where a refund finds it.

use crate::{Cost, Timestamp, decision::MAX_LIMITS};

/// What an admission charged, for a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it was made.
    pub made: Timestamp,
    /// When the permits may be used.
    pub at: Timestamp,
    /// How many permits were charged.
    pub cost: Cost,
    /// Where a refund finds them in the states of the limits.
    pub marks: Marks,
}

impl Charge {
    /// Returns the charge as it finds the state of each limit.
    pub(crate) fn of_each_limit(self) -> impl Iterator<Item = Self> {
        self.marks.0.into_iter().map(move |mark| Self { marks: Marks::one(mark), ..self })
    }
}

/// A charge in memory, and the [epoch](crate::memory) in which it was made.
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    pub(crate) charge: Charge,
    pub(crate) epoch: u64,
}

/// How a refund finds a charge: one number for each limit, with a meaning of the algorithm's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub(crate) [u64; MAX_LIMITS]);

impl Marks {
    /// Returns the marks of a single limit.
    #[must_use]
    pub const fn one(mark: u64) -> Self {
        let mut marks = [0; MAX_LIMITS];
        marks[0] = mark;
        Self(marks)
    }

    /// Sets the mark of a limit.
    pub(crate) fn set(&mut self, limit: usize, mark: u64) {
        if let Some(place) = self.0.get_mut(limit) {
            *place = mark;
        }
    }

    /// Returns the mark of the first limit.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.0[0]
    }
}
