//! How long messages take without faults.

use crate::vocabulary::Micros;

/// The trips of a run, and the deadline that the limiters have for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trips {
    /// The shortest and the longest trip each way.
    pub(crate) shortest: Micros,
    pub(crate) longest: Micros,
    /// The deadline of all limiters.
    pub(crate) deadline: Micros,
}

impl Trips {
    /// Those to a server in the same building.
    pub(crate) const NEAR: Self = Self { shortest: 20, longest: 400, deadline: 50_000 };

    /// Those to a server in another country.
    pub(crate) const FAR: Self = Self { shortest: 5_000, longest: 40_000, deadline: 200_000 };

    /// Trips of which two round trips are longer than the deadline.
    pub(crate) const TIGHT: Self = Self { shortest: 5_000, longest: 20_000, deadline: 50_000 };

    /// Returns whether two calls, one after the other, always fit the deadline.
    pub(crate) const fn fit_twice(self) -> bool {
        2 * self.there_and_back() <= self.deadline
    }

    /// Returns the longest round trip.
    pub(crate) const fn there_and_back(self) -> Micros {
        2 * self.longest
    }
}
