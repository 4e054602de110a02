//! What the callers of a process share.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::{Either, select};
use limiter_redis::RedisLimiter;

use crate::{
    clock::ProcessClock,
    fault::Fault,
    fleet::{Fleet, KEYS},
    network::{Network, SimClient},
    random::Random,
    records::Records,
    vocabulary::{Micros, Moment, ProcessId},
};

/// A process: its limiters, its clock and its network.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: ProcessId,
    pub(crate) clock: ProcessClock,
    pub(crate) limiters: Vec<RedisLimiter<SimClient>>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) network: Network,
    pub(crate) is_over: Arc<AtomicBool>,
}

impl Member {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    pub(crate) fn now(&self) -> Micros {
        self.network.moment().now
    }

    pub(crate) fn leases(&self, limiter: usize) -> bool {
        self.fleet.leases(limiter)
    }

    pub(crate) fn pick_limiter(&self, random: &mut Random) -> usize {
        usize::try_from(random.below(self.limiters.len() as u64)).unwrap_or(0)
    }

    pub(crate) fn pick_key(&self, random: &mut Random) -> usize {
        usize::try_from(random.below(KEYS.len() as u64)).unwrap_or(0)
    }

    pub(crate) fn limiter(&self, index: usize) -> Option<&RedisLimiter<SimClient>> {
        self.limiters.get(index)
    }

    pub(crate) fn with_records<T>(&self, work: impl FnOnce(&mut Records, Moment) -> T) -> T {
        self.network.with_records(work)
    }

    pub(crate) fn happens(&self, fault: Fault) -> bool {
        self.network.happens(fault)
    }

    pub(crate) async fn sleep(&self, time: Micros) {
        self.clock.sleep(Duration::from_micros(time)).await;
    }

    /// Waits for an answer, for a while at most.
    pub(crate) async fn wait<F: Future>(&self, answer: F, patience: Micros) -> Option<F::Output> {
        let (answer, sleep) = (pin!(answer), pin!(self.sleep(patience)));
        match select(answer, sleep).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}
