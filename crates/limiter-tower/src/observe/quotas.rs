//! Reports how many quotas a limiter knows, before `with_policy` fails for a new one.

use std::sync::atomic::{AtomicUsize, Ordering};

use limiter_core::{KnownQuotas, Limiter, Policy};

use super::log;

/// Watches the limiter that plans share.
pub(crate) struct QuotaWatch {
    /// That of the plan which the others were made from.
    policy: Policy,
    /// The most quotas that were known.
    highest: AtomicUsize,
}

impl QuotaWatch {
    pub(crate) const fn new(policy: Policy) -> Self {
        Self { policy, highest: AtomicUsize::new(0) }
    }

    /// Reports how many quotas the limiter of a new plan knows, if there are more than before.
    pub(crate) fn plan_made(&self, limiter: &dyn Limiter) {
        let Some(quotas) = limiter.known_quotas() else { return };
        let KnownQuotas { known, capacity } = quotas;
        if known <= self.highest.load(Ordering::Relaxed) {
            return;
        }
        let before = self.highest.fetch_max(known, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        super::metrics::record_quotas(&self.policy, quotas);
        let many = capacity - capacity / 5;
        if (before..known).contains(&(many - 1)) {
            log::many_quotas(self.policy.name(), quotas);
        }
    }
}
