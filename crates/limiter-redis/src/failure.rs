//! What is decided while the store can't decide.

use std::{
    num::NonZeroU32,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use limiter_core::{
    Cost, Decision, Error, Key, Limiter, MemoryLimiter, Policy, Receipt, Reservation, Source, Usage,
};

/// What a limiter decides while its store can't: it is not there, too slow, or can't write.
///
/// Each such decision tells by its [`source`](Decision::source) that the store had no part in it.
///
/// What is not a decision has no fallback: to reset a key, or to give something back, is an error
/// then, and so is a look, unless there is a limiter in memory to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// There is no decision: the answer is the error, and the caller chooses. `limiter-tower` has a
    /// choice of its own for it.
    #[default]
    Report,
    /// All are admitted, uncounted, so that an outage of the store is not an outage of the service.
    Allow,
    /// All are refused, so that nothing goes uncounted. `limiter-tower` answers with 503.
    Deny,
    /// A limiter in this process's memory decides, which may give out its share of each quota: see
    /// [`Policy::shared_among`].
    ///
    /// It holds as many keys as [`MemoryLimiter::DEFAULT_CAPACITY`] says, and is kept warm: what the
    /// store admits through this process is charged there too, so that an outage gives no key a new
    /// allowance of this process.
    Local {
        /// How many processes share the store.
        processes: NonZeroU32,
    },
}

/// A limiter in memory for the time without a store.
#[derive(Debug)]
pub(crate) struct Local {
    processes: NonZeroU32,
    /// By tier, the policy itself first.
    tiers: RwLock<Vec<MemoryLimiter>>,
}

/// How long a caller should wait that is refused without a state: about until the store is tried
/// again.
const WAIT: Duration = Duration::from_secs(1);

impl FailurePolicy {
    /// Returns the limiter in memory for `policy`, where there is to be one.
    pub(crate) fn local(self, policy: &Policy) -> Result<Option<Local>, Error> {
        let Self::Local { processes } = self else {
            return Ok(None);
        };
        let tiers = MemoryLimiter::new(policy.shared_among(processes)).and_then(with_tiers)?;
        Ok(Some(Local { processes, tiers: RwLock::new(tiers) }))
    }

    /// Returns the decision without a store and without a limiter in memory, if there is one.
    pub(crate) fn decision(self, policy: &Policy) -> Option<Decision> {
        let limit = policy.limits().first().map_or(0, |limit| limit.quota().burst());
        let decision = match self {
            Self::Allow => Decision::admitted(Usage::new(limit, limit, Duration::ZERO)),
            Self::Deny => Decision::refused(Usage::new(limit, 0, WAIT), Some(WAIT)),
            Self::Report | Self::Local { .. } => return None,
        };
        Some(decision.with_source(Source::Failure))
    }
}

impl Local {
    /// Replaces the policy, while checks go on. Not for two at once.
    pub(crate) fn replace(&self, policy: &Policy) -> Result<(), Error> {
        if let Some(limiter) = self.ask(0, MemoryLimiter::clone) {
            limiter.replace(policy.shared_among(self.processes))?;
            let tiers = with_tiers(limiter)?;
            *self.tiers.write().unwrap_or_else(PoisonError::into_inner) = tiers;
        }
        Ok(())
    }

    /// Charges what the store has admitted, or as much of it as the share has left, and tells by
    /// which receipt it is given back.
    pub(crate) fn follow(&self, tier: usize, key: &[u8], cost: Cost) -> Option<Receipt> {
        self.ask(tier, |limiter| {
            let charge =
                |cost| limiter.reserve(Key::from(key), cost, Duration::ZERO).into_receipt();
            let rest = || Cost::new(limiter.peek(Key::from(key)).remaining()).ok();
            charge(cost).or_else(|| charge(rest()?))
        })?
    }

    pub(crate) fn decide(&self, tier: usize, key: &[u8], cost: Cost) -> Option<Decision> {
        let decision = self.ask(tier, |limiter| limiter.try_acquire(Key::from(key), cost))?;
        Some(decision.with_source(Source::Local))
    }

    pub(crate) fn reserve(
        &self,
        tier: usize,
        key: &[u8],
        cost: Cost,
        within: Duration,
    ) -> Option<Reservation> {
        let reserved = self.ask(tier, |limiter| limiter.reserve(Key::from(key), cost, within))?;
        let decision = reserved.decision().with_source(Source::Local);
        Some(match (reserved.delay(), reserved.into_receipt()) {
            (Some(delay), Some(receipt)) => Reservation::admitted(decision, delay, receipt),
            _ => Reservation::refused(decision),
        })
    }

    pub(crate) fn peek(&self, tier: usize, key: &[u8]) -> Option<Usage> {
        self.ask(tier, |limiter| limiter.peek(Key::from(key)))
    }

    pub(crate) fn refund(&self, receipt: Receipt) {
        self.ask(0, |limiter| limiter.refund(receipt));
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        self.ask(0, |limiter| limiter.reset(Key::from(key)));
    }

    pub(crate) fn ask<T>(&self, tier: usize, ask: impl FnOnce(&MemoryLimiter) -> T) -> Option<T> {
        let tiers = self.tiers.read().unwrap_or_else(PoisonError::into_inner);
        tiers.get(tier).map(ask)
    }
}

fn with_tiers(limiter: MemoryLimiter) -> Result<Vec<MemoryLimiter>, Error> {
    let policy = limiter.policy();
    let others = policy.tiers().iter().map(|tier| limiter.tier(tier.name()));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    Ok([limiter].into_iter().chain(others).collect())
}
