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
use limiter_core::{Error, Key, WaitingLimiter};

use crate::{
    clock::ProcessClock,
    fault::Fault,
    fleet::{Fleet, InFlight, Limiters, TIERS},
    network::Network,
    random::Random,
    record::Record,
    vocabulary::{KEYS, Micros, Moment, ProcessId, Subject},
};

/// What is asked for: a key of a limiter, by one of its tiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) subject: Subject,
    pub(crate) tier: usize,
}

/// A process: its limiters, its clock and its network.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: ProcessId,
    pub(crate) clock: ProcessClock,
    pub(crate) limiters: Limiters,
    /// The tier of each limiter that is in use.
    pub(super) tiers: Vec<AtomicUsize>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) network: Network,
    pub(super) is_over: Arc<AtomicBool>,
    /// Whether work is dropped when its permit is lost.
    pub(crate) is_strict: bool,
}

impl Target {
    pub(crate) fn key(self) -> Key<'static> {
        Key::from(self.subject.name())
    }
}

impl Member {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    pub(crate) fn now(&self) -> Micros {
        self.network.moment().now
    }

    pub(super) fn use_tier(&self, limiter: usize, tier: usize) {
        if let Some(used) = self.tiers.get(limiter) {
            used.store(tier, Relaxed);
        }
    }

    /// Picks a key of a limiter, by the tier in use or, now and then, by another one.
    pub(crate) fn pick(&self, limiter: usize, random: &mut Random) -> Target {
        let (key, other) = (random.index(KEYS.len()), random.index(TIERS));
        let used = self.tiers.get(limiter).map_or(0, |tier| tier.load(Relaxed));
        let tier = if self.network.happens(Fault::TierChanged) { other } else { used };
        Target { subject: Subject { limiter, key }, tier }
    }

    /// Returns the limiter of requests in flight of a subject.
    pub(crate) fn in_flight(&self, subject: Subject) -> Option<&InFlight> {
        let number = subject.limiter.checked_sub(self.fleet.limiters())?;
        self.limiters.in_flight.get(number)
    }

    /// Returns the handle of a limiter for a tier, as a program does for each request.
    pub(crate) fn handle(&self, target: Target) -> Option<Arc<dyn WaitingLimiter>> {
        let limiter = target.subject.limiter;
        let policy = self.fleet.tiers(limiter).get(target.tier)?;
        self.limiter(limiter)?.waiting_with_policy(policy).ok()
    }

    /// Returns a limiter, with the process's share if it has one.
    pub(crate) fn limiter(&self, index: usize) -> Option<&dyn WaitingLimiter> {
        let share = self.limiters.shares.get(index)?.as_ref();
        let share = share.map(|share| share as &dyn WaitingLimiter);
        Some(share.unwrap_or(self.limiters.rates.get(index)?))
    }

    pub(crate) fn with_record<T>(&self, work: impl FnOnce(&mut Record, Moment) -> T) -> T {
        self.network.with_record(work)
    }

    /// Reports the error of what may not fail.
    pub(crate) fn must<T>(&self, result: Result<T, Error>) -> Option<T> {
        let violated = |error: Error| {
            self.with_record(|record, moment| record.violated(moment, None, &error.to_string()));
        };
        result.map_err(violated).ok()
    }

    pub(crate) async fn sleep(&self, time: Micros) {
        self.clock.sleep(Duration::from_micros(time)).await;
    }

    /// Waits for an answer, or leaves after a while at most.
    pub(crate) async fn wait<F: Future>(&self, answer: F, patience: Micros) -> Option<F::Output> {
        let (answer, sleep) = (pin!(answer), pin!(self.sleep(patience)));
        match select(answer, sleep).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}
