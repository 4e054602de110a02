//! Decisions while the store can't decide.

use std::{
    num::NonZeroU32,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{
    Cost, Decision, Error, Key, MemoryLimiter, Policy, Receipt, Reservation, Source, Usage,
};

use super::share::share;

/// What a limiter decides while its store is unreachable, too slow, or can't write.
///
/// [`Decision::source`] shows that the store had no part in such a decision.
///
/// Resets and refunds have no fallback: they return the error. A peek has one only with
/// [`FailurePolicy::Local`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase", deny_unknown_fields))]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Returns the error, so that the caller decides. `limiter-tower` has a setting for it.
    #[default]
    Report,
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
    /// Returns the fallback in memory for `policy`, if there is one.
    pub(crate) fn local(self, policy: &Policy) -> Result<Option<Local>, Error> {
        let Self::Local { processes } = self else { return Ok(None) };
        // Wide states, because the number of quotas that take turns on a key is not limited here.
        let limiter = MemoryLimiter::builder(share(policy, processes)?).wide_states().build()?;
        Ok(Some(Local { processes: AtomicU32::new(processes.get()), limiter }))
    }

    /// Returns the decision that is the same for all requests, if there is one.
    pub(crate) fn decision(self, policy: &Policy) -> Option<Decision> {
        let limit = policy.limits().first().map_or(0, |limit| limit.quota().burst());
        let decision = match self {
            Self::Allow => Decision::admitted(Usage::new(limit, limit, Duration::ZERO)),
            Self::Deny => Decision::refused(Usage::new(limit, 0, RETRY_AFTER), Some(RETRY_AFTER)),
            Self::Report | Self::Local { .. } => return None,
        };
        Some(decision.with_source(Source::Failure))
    }
}

/// The limiter in memory for the time without a store.
#[derive(Debug)]
pub(crate) struct Local {
    processes: AtomicU32,
    limiter: MemoryLimiter,
}

/// The limiter in memory under a handle's policy.
#[derive(Debug)]
pub(crate) struct LocalHandle {
    /// The whole policy, of which `current` enforces the share.
    policy: Policy,
    current: RwLock<Share>,
}

#[derive(Debug)]
struct Share {
    processes: u32,
    limiter: MemoryLimiter,
}

impl Local {
    pub(crate) fn set_processes(&self, processes: NonZeroU32) {
        self.processes.store(processes.get(), Relaxed);
    }

    pub(crate) fn handle(&self, policy: &Policy) -> Result<LocalHandle, Error> {
        let processes = self.processes.load(Relaxed);
        let limiter = self.share(policy, processes)?;
        let current = RwLock::new(Share { processes, limiter });
        Ok(LocalHandle { policy: policy.clone(), current })
    }

    fn share(&self, policy: &Policy, processes: u32) -> Result<MemoryLimiter, Error> {
        let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
        self.limiter.with_policy(&share(policy, processes)?)
    }

    pub(crate) fn refund(&self, receipt: Receipt) -> u64 {
        self.limiter.refund(receipt)
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        self.limiter.reset(Key::from(key));
    }

    /// Charges what the store has admitted, or as much of it as the share has left.
    pub(crate) fn follow(&self, handle: &LocalHandle, key: &[u8], cost: Cost) -> Option<Receipt> {
        self.ask(handle, |limiter| {
            let charge =
                |cost| limiter.reserve(Key::from(key), cost, Duration::ZERO).into_receipt();
            let rest = || Cost::new(limiter.peek(Key::from(key)).remaining()).ok();
            charge(cost).or_else(|| charge(rest()?))
        })
    }

    pub(crate) fn decide(&self, handle: &LocalHandle, key: &[u8], cost: Cost) -> Decision {
        let decision = self.ask(handle, |limiter| limiter.check_n(Key::from(key), cost));
        decision.with_source(Source::Local)
    }

    pub(crate) fn reserve(
        &self,
        handle: &LocalHandle,
        key: &[u8],
        cost: Cost,
        within: Duration,
    ) -> Reservation {
        let reserved = self.ask(handle, |limiter| limiter.reserve(Key::from(key), cost, within));
        let decision = reserved.decision().with_source(Source::Local);
        match (reserved.delay(), reserved.into_receipt()) {
            (Some(delay), Some(receipt)) => Reservation::admitted(decision, delay, receipt),
            _ => Reservation::refused(decision),
        }
    }

    pub(crate) fn peek(&self, handle: &LocalHandle, key: &[u8]) -> Usage {
        self.ask(handle, |limiter| limiter.peek(Key::from(key)))
    }

    /// Asks the limiter of the handle's share, which is made anew if the number of processes changed.
    fn ask<T>(&self, handle: &LocalHandle, ask: impl FnOnce(&MemoryLimiter) -> T) -> T {
        let processes = self.processes.load(Relaxed);
        {
            let current = handle.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.processes == processes {
                return ask(&current.limiter);
            }
        }
        let mut current = handle.current.write().unwrap_or_else(PoisonError::into_inner);
        // A share can always be served: the whole policy was. If not, the previous share stays.
        if let Ok(limiter) = self.share(&handle.policy, processes) {
            *current = Share { processes, limiter };
        }
        ask(&current.limiter)
    }
}
