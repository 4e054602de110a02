//! The limiters of requests in flight of a process.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::Error;
use limiter_redis::{EventKind, RedisInFlight};

use crate::{
    clock::ProcessClock, in_flight_plan::Plan, network::SimClient, random::Random,
    vocabulary::Micros,
};

/// The limiters of requests in flight of a process.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) plan: Arc<Plan>,
    pub(crate) limiters: Vec<Limiter>,
    /// With how many processes this one shares each key, while the store can't decide.
    pub(crate) processes: AtomicU32,
    /// Whether work is dropped when its permit is lost.
    pub(crate) is_strict: bool,
}

/// A limiter of a process.
#[derive(Debug)]
pub(crate) struct Limiter {
    pub(crate) inner: RedisInFlight<SimClient>,
    /// How many events have reported a lost permit.
    lost: Arc<AtomicU64>,
}

impl InFlight {
    /// Returns the limiters of a process, whose calls have a deadline.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        deadline: Micros,
        (client, clock): (&SimClient, &ProcessClock),
        random: &mut Random,
    ) -> Result<Self, Error> {
        let mut limiters = Vec::new();
        for kind in &plan.limiters {
            let lost = Arc::new(AtomicU64::new(0));
            let events = Arc::clone(&lost);
            let mut builder = RedisInFlight::builder(kind.name, kind.limit)
                .expires_after(Duration::from_micros(kind.expiry))
                .deadline(Duration::from_micros(deadline))
                .clock(clock.clone())
                .seed(random.next())
                .observer(move |event| {
                    let is_lost = matches!(event.kind(), EventKind::PermitLost);
                    events.fetch_add(u64::from(is_lost), Relaxed);
                });
            if let Some(processes) = kind.share {
                builder = builder.local_share(processes);
            }
            let inner = builder.build_on(client.clone())?;
            limiters.push(Limiter { inner, lost });
        }
        let is_strict = random.below(4) > 0;
        let processes = AtomicU32::new(plan.processes.get());
        Ok(Self { plan: Arc::clone(plan), limiters, processes, is_strict })
    }
}

impl InFlight {
    /// Lets the process share its keys with another number of processes.
    pub(crate) fn share(&self, processes: NonZeroU32) {
        self.processes.store(processes.get(), Relaxed);
        self.limiters.iter().for_each(|limiter| limiter.inner.set_processes(processes));
    }

    /// Returns the process's share of a limit: a part of it, and one at least of a limit that is not zero.
    pub(crate) fn share_of(&self, limit: u32) -> u32 {
        (limit / self.processes.load(Relaxed)).max(limit.min(1))
    }
}

impl Limiter {
    /// Returns how many permits were lost by the counters.
    pub(crate) fn lost(&self) -> u64 {
        self.inner.counters().permits_lost
    }

    /// Returns how many permits were lost by the events.
    pub(crate) fn lost_by_events(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
