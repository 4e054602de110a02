//! The limiters of requests in flight.

use std::{num::NonZeroU32, sync::Arc};

use super::Fleet;
use crate::{in_flight_plan::Plan, random::Random, wrong::Wrong};

impl Fleet {
    /// Returns a fleet whose processes have limiters of requests in flight, and no others.
    pub(crate) fn of_in_flight(random: &mut Random, processes: u32, wrong: Option<Wrong>) -> Self {
        let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
        let (plan, trips) = Plan::new(random, processes, wrong);
        Self {
            groups: Vec::new(),
            processes,
            trips,
            busy: random.between(1_000_000, 6_000_000),
            quiet: random.below(2_000_000),
            longest_pause: plan.longest_pause,
            charges: false,
            in_flight: Some(Arc::new(plan)),
        }
    }
}
