//! What to simulate.

use crate::{fault::Fault, vocabulary::Micros, wrong::Wrong};

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From which all random numbers are drawn.
    pub seed: u64,
    /// How many processes there are. The default is drawn from the seed: 1 to 6.
    pub processes: Option<u32>,
    /// For how long there are faults, 15 s by default.
    pub faults_for: Micros,
    /// Faults that are left out. The others stay as the seed has them, as far as they don't depend on these.
    pub without: Vec<Fault>,
    /// What is wrong in the world on purpose.
    pub wrong: Option<Wrong>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, processes: None, faults_for: 15_000_000, without: Vec::new(), wrong: None }
    }
}
