//! Decisions while the store can't decide.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{
    Clock, Cost, Decision, Error, Key, MemoryLimiter, Policy, Receipt, Reservation, Source, Usage,
};

use super::share::share;
use crate::scripts::Ask;

/// What a limiter decides while its store is unreachable, too slow, or can't write.
///
/// [`Decision::source`] shows that the store had no part in such a decision.
///
/// Resets and refunds have no fallback: they return the error. A peek has one only with
/// [`FailurePolicy::Local`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Returns the error, so that the caller decides. `limiter-tower` has a setting for it.
    #[default]
    ReturnError,
    /// Admits all requests without counting them, so that an outage of the store is not an outage of
    /// the service.
    Allow,
    /// Refuses all requests. `limiter-tower` responds with status 503.
    Deny,
    /// Decides by a limiter in this process's memory, which has this process's share of each quota:
    /// the quota divided by the number of processes, rounded down.
    ///
    /// Permits that the store admits through this process are charged there too, so that an outage
    /// gives no key a new allowance of this process.
    Local {
        /// How many processes share the store. It can be changed later:
        /// [`RedisLimiter::set_processes`](crate::RedisLimiter::set_processes).
        processes: NonZeroU32,
    },
}

/// The `retry_after` of a refusal without a state: roughly when the store is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl FailurePolicy {
    /// Returns the fallback in memory for `policy`, by the clock of the process, if there is one.
    pub(crate) fn local(
        self,
        policy: &Policy,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Local>, Error> {
        let Self::Local { processes } = self else { return Ok(None) };
        Local::new(processes, policy, Arc::clone(clock)).map(Some)
    }

    /// Returns the decision that is the same for all requests, if there is one.
    pub(crate) fn decision(self, policy: &Policy) -> Option<Decision> {
        let limit = policy.limits().first().map_or(0, |limit| limit.quota().burst());
        let decision = match self {
            Self::Allow => Decision::admitted(Usage::new(limit, limit, Duration::ZERO)),
            Self::Deny => Decision::refused(Usage::new(limit, 0, RETRY_AFTER), Some(RETRY_AFTER)),
            Self::ReturnError | Self::Local { .. } => return None,
        };
        Some(decision.with_source(Source::Failure))
    }
}

/// A limiter in memory by the clock of the process.
type InMemory = MemoryLimiter<Arc<dyn Clock>>;

/// The limiter in memory for the time without a store, under a handle's policy. Those of all handles
/// share their states.
#[derive(Debug)]
pub(crate) struct Local {
    processes: Arc<AtomicU32>,
    /// The whole policy, of which the limiter enforces the share.
    policy: Policy,
    /// The limiter, and for how many processes its share was made.
    current: RwLock<(u32, InMemory)>,
}

impl Local {
    fn new(processes: NonZeroU32, policy: &Policy, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        // Wide states, because the number of quotas that take turns on a key is not limited here.
        let limiter = MemoryLimiter::builder(share(policy, processes)?);
        let limiter = limiter.wide_states().clock(clock).build()?;
        let processes = processes.get();
        Ok(Self {
            processes: Arc::new(AtomicU32::new(processes)),
            policy: policy.clone(),
            current: RwLock::new((processes, limiter)),
        })
    }

    /// Returns the fallback under another policy.
    pub(crate) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        let processes = self.processes.load(Relaxed);
        let limiter = self.ask(|limiter| with_share(limiter, policy, processes))?;
        let current = RwLock::new((processes, limiter));
        Ok(Self { processes: Arc::clone(&self.processes), policy: policy.clone(), current })
    }

    pub(crate) fn set_processes(&self, processes: NonZeroU32) {
        self.processes.store(processes.get(), Relaxed);
    }

    pub(crate) fn refund(&self, receipt: Receipt) -> u64 {
        self.ask(|limiter| limiter.refund(receipt))
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        self.ask(|limiter| limiter.reset(Key::from(key)));
    }

    /// Charges what the store has admitted, or as much of it as the share has left.
    pub(crate) fn follow(&self, key: &[u8], cost: Cost) -> Option<Receipt> {
        self.ask(|limiter| {
            let charge =
                |cost| limiter.reserve(Key::from(key), cost, Duration::ZERO).into_receipt();
            let rest = || Cost::new(limiter.peek(Key::from(key)).remaining()).ok();
            charge(cost).or_else(|| charge(rest()?))
        })
    }

    pub(crate) fn decide(&self, key: &[u8], cost: Cost) -> Decision {
        self.ask(|limiter| limiter.check_n(Key::from(key), cost)).with_source(Source::Local)
    }

    pub(crate) fn reserve(&self, key: &[u8], cost: Cost, ask: Ask) -> Reservation {
        let key = Key::from(key);
        let reserved = self.ask(|limiter| match ask {
            Ask::Within(within) => limiter.reserve(key, cost, within),
            Ask::UpTo => limiter.take_up_to(key, cost),
            Ask::InAnyCase => limiter.charge(key, cost),
        });
        let decision = reserved.decision().with_source(Source::Local);
        let (delay, permits) = (reserved.delay(), reserved.permits());
        match (delay, reserved.into_receipt()) {
            (Some(delay), Some(receipt)) => Reservation::admitted(decision, delay, receipt),
            (Some(_), None) => Reservation::uncounted(decision, permits),
            (None, _) => Reservation::refused(decision),
        }
    }

    pub(crate) fn peek(&self, key: &[u8]) -> Usage {
        self.ask(|limiter| limiter.peek(Key::from(key)))
    }

    /// Asks the limiter of this process's share, which is made anew if the number of processes changed.
    fn ask<T>(&self, ask: impl FnOnce(&InMemory) -> T) -> T {
        let processes = self.processes.load(Relaxed);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.0 == processes {
                return ask(&current.1);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // A share can always be served: the whole policy was. If not, the previous share stays.
        if let Ok(limiter) = with_share(&current.1, &self.policy, processes) {
            *current = (processes, limiter);
        }
        ask(&current.1)
    }
}

fn with_share(limiter: &InMemory, policy: &Policy, processes: u32) -> Result<InMemory, Error> {
    let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
    limiter.with_policy(&share(policy, processes)?)
}

#[cfg(test)]
mod tests {
    use limiter_core::{ManualClock, Quota};

    use super::*;

    #[test]
    fn permits_recover_by_the_clock_of_the_process() {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        for policy in [
            Policy::gcra("api", Quota::per_hour(2)),
            Policy::aligned_window("api", Quota::per_hour(2)),
        ] {
            let processes = NonZeroU32::new(2).unwrap();
            let local = FailurePolicy::Local { processes }.local(&policy, &shared).unwrap();
            let local = local.unwrap();
            for _ in 0..3 {
                assert!(local.decide(b"alice", Cost::ONE).is_admitted(), "{policy:?}");
                let refusal = local.decide(b"alice", Cost::ONE);
                assert_eq!(refusal.retry_after(), Some(Duration::from_secs(3_600)), "{policy:?}");
                clock.advance(Duration::from_secs(3_600));
            }
        }
    }
}
