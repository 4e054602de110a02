//! The limiters of services.

use std::{num::NonZeroU32, sync::Arc};

use limiter_core::Error;

use super::{Fleet, Group, TABLES, TIERS, Tuning};
use crate::{random::Random, service_plan::Plan, trips::Trips, wrong::Wrong};

impl Fleet {
    /// Returns a fleet whose processes have services: the limiters of their rules, in one store or two.
    pub(crate) fn of_services(
        random: &mut Random,
        processes: u32,
        wrong: Option<Wrong>,
    ) -> Result<Self, Error> {
        let plan = Plan::new(random, wrong)?;
        let mut limiters: Vec<_> =
            plan.policies.iter().map(|policy| vec![policy.clone(); TIERS]).collect();
        let others = limiters.split_off(plan.in_first_store);
        let stores = [limiters, others].into_iter().filter(|limiters| !limiters.is_empty());
        let groups = stores.map(|limiters| {
            let batching = random.below(4) > 0;
            let tables = *random.pick(&TABLES).unwrap_or(&TABLES[0]);
            let tuning = Tuning { share: None, lease: false, batching, tables };
            Group { lease: false, tuning, limiters }
        });
        Ok(Self {
            groups: groups.collect(),
            processes: NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN),
            trips: Trips::NEAR,
            busy: random.between(300_000, 3_000_000),
            quiet: random.below(1_500_000),
            longest_pause: random.between(10_000, 100_000),
            charges: false,
            services: Some(Arc::new(plan)),
            in_flight: None,
        })
    }
}
