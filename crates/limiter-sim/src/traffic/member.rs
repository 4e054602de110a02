//! What the callers of a process share.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::{Either, select};
use limiter_core::{Key, WaitingLimiter};
use limiter_redis::RedisLimiter;

use crate::{
    clock::ProcessClock,
    fault::Fault,
    fleet::{Fleet, Share, TIERS},
    in_flight::InFlight,
    network::{Network, SimClient},
    random::Random,
    records::Records,
    vocabulary::{KEYS, Micros, Moment, ProcessId, Subject, subject},
};

/// What is asked for: a key of a limiter, by one of its tiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) limiter: usize,
    pub(crate) key: usize,
    pub(crate) tier: usize,
}

impl Target {
    pub(crate) const fn subject(self) -> Subject {
        subject(self.limiter, self.key)
    }

    /// Returns the key.
    pub(crate) fn key(self) -> Key<'static> {
        Key::from(self.name())
    }

    /// Returns the name of the key.
    pub(crate) fn name(self) -> &'static str {
        KEYS.get(self.key).copied().unwrap_or_default()
    }
}

/// A process: its limiters, its clock and its network.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: ProcessId,
    pub(crate) clock: ProcessClock,
    pub(crate) limiters: Vec<RedisLimiter<SimClient>>,
    /// For each limiter, what decides by the process's share while the store fails, if it has one.
    pub(crate) shares: Vec<Option<Share>>,
    /// The tier of each limiter that is in use.
    pub(crate) tiers: Vec<AtomicUsize>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) network: Network,
    pub(crate) is_over: Arc<AtomicBool>,
    /// Its limiters of requests in flight, if callers enter in place of asking the limiters.
    pub(crate) in_flight: Option<Arc<InFlight>>,
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

    /// Returns the tier of a limiter that is in use.
    pub(crate) fn tier(&self, limiter: usize) -> usize {
        self.tiers.get(limiter).map_or(0, |tier| tier.load(Relaxed))
    }

    pub(crate) fn use_tier(&self, limiter: usize, tier: usize) {
        if let Some(used) = self.tiers.get(limiter) {
            used.store(tier, Relaxed);
        }
    }

    /// Picks a limiter and a key, by the tier in use or, now and then, by another one.
    pub(crate) fn pick(&self, limiter: usize, random: &mut Random) -> Target {
        let key = usize::try_from(random.below(KEYS.len() as u64)).unwrap_or(0);
        let is_other = self.happens(Fault::TierChanged);
        let other = usize::try_from(random.below(TIERS as u64)).unwrap_or(0);
        let tier = if is_other { other } else { self.tier(limiter) };
        Target { limiter, key, tier }
    }

    /// Returns the handle of a limiter for a tier, as a program does for each request.
    pub(crate) fn handle(&self, target: Target) -> Option<Arc<dyn WaitingLimiter>> {
        let policy = self.fleet.tiers(target.limiter).get(target.tier)?;
        self.limiter(target.limiter)?.waiting_with_policy(policy).ok()
    }

    /// Returns a limiter, with the process's share if it has one.
    pub(crate) fn limiter(&self, index: usize) -> Option<&dyn WaitingLimiter> {
        let share = self.shares.get(index)?.as_ref().map(|share| share as &dyn WaitingLimiter);
        Some(share.unwrap_or(self.limiters.get(index)?))
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
