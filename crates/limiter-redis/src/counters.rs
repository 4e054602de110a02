//! The counters of a limiter in this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limiter_core::{Decision, ErrorKind};

use crate::events::{Event, EventKind, FallbackKind};

/// What a limiter and all its handles have counted in this process since the limiter was built.
///
/// A check that ends with a decision is in one of `admitted`, `refused`, `cached` and the three
/// fallbacks. Each counter only grows. The counters are read one after the other, so checks that end
/// meanwhile may be in some and not yet in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Checks and reservations that the store admitted.
    pub admitted: u64,
    /// Checks and reservations that the store refused.
    pub refused: u64,
    /// Checks that were refused by a cached denial, without asking the store.
    pub cached: u64,
    /// Checks that were admitted by [`FailurePolicy::Allow`](crate::FailurePolicy::Allow).
    pub fallback_allow: u64,
    /// Checks that were refused by [`FailurePolicy::Deny`](crate::FailurePolicy::Deny).
    pub fallback_deny: u64,
    /// Checks, reservations and peeks that a limiter in memory answered.
    pub fallback_local: u64,
    /// Operations that the store did not execute: it was unreachable, busy, or could not write.
    pub unavailable: u64,
    /// Operations that were sent and got no reply in time: each may have charged or not.
    pub undetermined: u64,
    /// Operations that got a reply that this library never expects, such as for a foreign value at a key.
    pub unexpected: u64,
    /// Refunds that the store did not confirm, so that their permits may stay charged.
    pub refunds_failed: u64,
    /// Operations that were not sent, because the circuit breaker was open.
    pub not_asked: u64,
    /// How many times a circuit breaker opened.
    pub breaker_opened: u64,
    /// How many times a circuit breaker closed again. There is one breaker for writes and one for
    /// peeks, in a cluster for each node, and all are counted together.
    pub breaker_closed: u64,
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    admitted: Padded,
    refused: Padded,
    cached: Padded,
    not_asked: Padded,
    fallback_allow: Padded,
    fallback_deny: Padded,
    fallback_local: Padded,
    unavailable: AtomicU64,
    undetermined: AtomicU64,
    unexpected: AtomicU64,
    refunds_failed: AtomicU64,
    breaker_opened: AtomicU64,
    breaker_closed: AtomicU64,
}

/// A counter in a cache line of its own, because several threads write different counters at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Tally {
    /// Counts a decision of the store.
    #[inline]
    pub(crate) fn decided(&self, decision: &Decision) {
        let Padded(count) = if decision.is_admitted() { &self.admitted } else { &self.refused };
        count.fetch_add(1, Relaxed);
    }

    /// Counts a cached denial.
    #[inline]
    pub(crate) fn cached(&self) {
        self.cached.0.fetch_add(1, Relaxed);
    }

    /// Counts an operation that the circuit breaker refused.
    pub(crate) fn not_asked(&self) {
        self.not_asked.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn count(&self, event: &Event<'_>) {
        let count = match event.kind() {
            EventKind::BreakerOpened => &self.breaker_opened,
            EventKind::BreakerClosed => &self.breaker_closed,
            EventKind::StoreError(error) => match error.kind() {
                ErrorKind::Unavailable => &self.unavailable,
                ErrorKind::Undetermined => &self.undetermined,
                _ => &self.unexpected,
            },
            EventKind::RefundFailed(_) => &self.refunds_failed,
            EventKind::Fallback(FallbackKind::Allow) => &self.fallback_allow.0,
            EventKind::Fallback(FallbackKind::Deny) => &self.fallback_deny.0,
            EventKind::Fallback(FallbackKind::Local) => &self.fallback_local.0,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Relaxed);
        Counters {
            admitted: read(&self.admitted.0),
            refused: read(&self.refused.0),
            cached: read(&self.cached.0),
            fallback_allow: read(&self.fallback_allow.0),
            fallback_deny: read(&self.fallback_deny.0),
            fallback_local: read(&self.fallback_local.0),
            unavailable: read(&self.unavailable),
            undetermined: read(&self.undetermined),
            unexpected: read(&self.unexpected),
            refunds_failed: read(&self.refunds_failed),
            not_asked: read(&self.not_asked.0),
            breaker_opened: read(&self.breaker_opened),
            breaker_closed: read(&self.breaker_closed),
        }
    }
}
