//! When keys are blocked, and for how long.

use std::time::Duration;

use limiter_core::{Algorithm, Block, Error, Policy, Quota};

use crate::{random::Random, vocabulary::Micros};

/// When keys of the rule `user` are blocked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    /// Whether refusals are strikes, or failed responses.
    pub(crate) by_refusals: bool,
    pub(crate) strikes: u64,
    pub(crate) within: Micros,
    /// How long a block lasts, the first one if they double.
    pub(crate) lasting: Micros,
    pub(crate) doubling: Option<Doubling>,
    /// Whether a response that does not fail clears the strikes and the levels.
    pub(crate) clears_on_success: bool,
}

/// How the time of blocks doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubling {
    pub(crate) longest: Micros,
    pub(crate) forget_after: Micros,
}

impl Blocking {
    /// Blocks that repeat soon, with levels that are forgotten within a run.
    pub(super) const OFTEN: Self = Self {
        by_refusals: true,
        strikes: 3,
        within: 4_000_000,
        lasting: 500_000,
        doubling: Some(Doubling { longest: 1_700_000, forget_after: 2_500_000 }),
        clears_on_success: false,
    };

    /// Blocks by failed responses, whose strikes a success clears.
    pub(crate) const CLEARED: Self =
        Self { by_refusals: false, doubling: None, clears_on_success: true, ..Self::OFTEN };

    pub(super) fn new(random: &mut Random, others: &mut Random) -> Self {
        let mut blocking = Self {
            by_refusals: random.below(2) == 0,
            strikes: random.between(2, 6),
            within: 1_000 * random.between(2_000, 6_000),
            lasting: 1_000 * random.between(300, 1_500),
            doubling: None,
            clears_on_success: false,
        };
        if others.below(2) == 0 {
            // Shorter ones, of which a run has many.
            blocking.lasting /= 4_000;
            blocking.lasting *= 1_000;
            let longest = 1_000 * others.between(blocking.lasting / 1_000, 2_500);
            let forget_after = longest + 1_000 * others.below(3_000);
            blocking.doubling = Some(Doubling { longest, forget_after });
        }
        blocking.clears_on_success = !blocking.by_refusals && others.below(2) == 0;
        blocking
    }

    pub(crate) fn block(&self) -> Block {
        let Self { strikes, within, lasting, doubling, clears_on_success, .. } = *self;
        let within = Duration::from_micros(within);
        let block = Block::after(strikes).within(within).lasting(Duration::from_micros(lasting));
        let block = if clears_on_success { block.clear_on_success() } else { block };
        match doubling {
            None => block,
            Some(Doubling { longest, forget_after }) => block
                .doubling(Duration::from_micros(longest))
                .forget_after(Duration::from_micros(forget_after)),
        }
    }

    /// Returns the state of strikes, as keys of the store name it: a log.
    pub(crate) fn strikes_key(&self) -> Result<String, Error> {
        let quota = Quota::new(self.strikes, Duration::from_micros(self.within))?;
        let policy = Policy::new("user-strikes", Algorithm::SlidingLog, quota)?;
        Ok(format!("{}:{}", policy.name(), policy.identities().concat()))
    }

    /// Returns how long a block of each level lasts, the longest one last.
    pub(crate) fn lengths(&self) -> Vec<Micros> {
        let longest = self.doubling.map_or(self.lasting, |it| it.longest);
        let mut lengths = Vec::new();
        let mut length = self.lasting;
        while length < longest {
            lengths.push(length);
            length *= 2;
        }
        lengths.push(longest);
        lengths
    }
}
