//! What to simulate.

use crate::{fault::Fault, vocabulary::Micros, wrong::Wrong};

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From which all random numbers are drawn.
    pub seed: u64,
    /// How many processes there are. The default is drawn from the seed: 1 to 6.
    pub processes: Option<u32>,
    /// For how long there is traffic without faults before them, and after them: not at all by default.
    pub calm: Micros,
    /// For how long there are faults, 15 s by default.
    pub faults_for: Micros,
    /// Faults that are left out. The others stay as the seed has them, as far as they don't depend on these.
    pub without: Vec<Fault>,
    /// What is wrong in the world on purpose.
    pub wrong: Option<Wrong>,
    /// Whether the callers of the processes hold permits of requests in flight, in place of asking other limiters.
    pub in_flight: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            processes: None,
            calm: 0,
            faults_for: 15_000_000,
            without: Vec::new(),
            wrong: None,
            in_flight: false,
        }
    }
}

impl Settings {
    /// Returns whether the callers of the processes hold permits of requests in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight || self.wrong.is_some_and(Wrong::is_of_in_flight)
    }
}
