//! The rule that waits.

use std::time::Duration;

use limiter_tower::rule::Wait;

use super::{ALL, TENANT, USER};
use crate::{random::Random, vocabulary::Micros};

/// The rule that waits, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// The index of the rule.
    pub(crate) rule: usize,
    /// How long a request waits at most, and how many of a process wait for one key.
    pub(crate) within: Micros,
    pub(crate) queue: usize,
}

impl Waiting {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            rule: *random.pick(&[USER, TENANT, TENANT, ALL]).unwrap_or(&TENANT),
            within: 1_000 * random.between(200, 1_000),
            queue: usize::try_from(random.between(1, 6)).unwrap_or(1),
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        Wait::up_to(Duration::from_micros(self.within)).queue(self.queue)
    }

    /// Returns after what time a client that is about to drop its request does so: most of them while they wait.
    pub(crate) fn patience(&self, random: &mut Random) -> Micros {
        let most = if random.below(4) == 0 { 2_000 } else { self.within };
        random.below(most)
    }
}
