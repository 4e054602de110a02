//! What a limiter has counted in this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limiter_core::{Decision, ErrorKind};

use crate::events::{Event, FallbackKind};

/// What a limiter and its clones have counted since it was made, in this process: a copy of the
/// counts at one moment.
///
/// A check that ends with a decision is in one of `admitted`, `refused`, `remembered` and the three
/// fallbacks. Each count only grows; they are read one after the other, so that checks that end
/// meanwhile may be in some and not yet in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Checks that the store admitted.
    pub admitted: u64,
    /// Checks that the store refused.
    pub refused: u64,
    /// Checks that were refused without asking the store, since it had refused the key a moment
    /// ago and the wait is not over.
    pub remembered: u64,
    /// Checks that were admitted uncounted, since the store gave no decision.
    pub fallback_allow: u64,
    /// Checks that were refused, since the store gave no decision.
    pub fallback_deny: u64,
    /// Checks, reservations and looks that a limiter in memory answered, since the store did not.
    pub fallback_local: u64,
    /// Calls that the store did not execute: it was not there, was busy, or could not write.
    pub unavailable: u64,
    /// Calls that were sent and not answered in time: each may have charged or not.
    pub undetermined: u64,
    /// Calls that the store answered with something that this library never writes or sends.
    pub unexpected: u64,
    /// Operations for which the store was not asked, since the circuit breaker was open.
    pub not_asked: u64,
    /// How often the circuit breaker has opened.
    pub breaker_opened: u64,
    /// How often the circuit breaker has closed again: as often as it has opened, or less by one
    /// while it is open. There is one for checks and one for looks, in a cluster of each node, and
    /// all are counted together.
    pub breaker_closed: u64,
}

/// The counts as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    admitted: Own,
    refused: Own,
    remembered: Own,
    not_asked: Own,
    fallback_allow: Own,
    fallback_deny: Own,
    fallback_local: Own,
    unavailable: AtomicU64,
    undetermined: AtomicU64,
    unexpected: AtomicU64,
    breaker_opened: AtomicU64,
    breaker_closed: AtomicU64,
}

/// A count in a cache line of its own, since it is one of several that checks write at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own(AtomicU64);

impl Tally {
    /// Counts a decision of the store.
    #[inline]
    pub(crate) fn decided(&self, decision: &Decision) {
        let Own(count) = if decision.is_admitted() { &self.admitted } else { &self.refused };
        count.fetch_add(1, Relaxed);
    }

    /// Counts a refusal that was remembered.
    #[inline]
    pub(crate) fn remembered(&self) {
        self.remembered.0.fetch_add(1, Relaxed);
    }

    /// Counts a check that the circuit breaker kept from the store.
    pub(crate) fn not_asked(&self) {
        self.not_asked.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn count(&self, event: &Event<'_>) {
        let count = match event {
            Event::BreakerOpened => &self.breaker_opened,
            Event::BreakerClosed => &self.breaker_closed,
            Event::StoreError(error) => match error.kind() {
                ErrorKind::Unavailable => &self.unavailable,
                ErrorKind::Undetermined => &self.undetermined,
                _ => &self.unexpected,
            },
            Event::Fallback(FallbackKind::Allow) => &self.fallback_allow.0,
            Event::Fallback(FallbackKind::Deny) => &self.fallback_deny.0,
            Event::Fallback(FallbackKind::Local) => &self.fallback_local.0,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Relaxed);
        Counters {
            admitted: read(&self.admitted.0),
            refused: read(&self.refused.0),
            remembered: read(&self.remembered.0),
            fallback_allow: read(&self.fallback_allow.0),
            fallback_deny: read(&self.fallback_deny.0),
            fallback_local: read(&self.fallback_local.0),
            unavailable: read(&self.unavailable),
            undetermined: read(&self.undetermined),
            unexpected: read(&self.unexpected),
            not_asked: read(&self.not_asked.0),
            breaker_opened: read(&self.breaker_opened),
            breaker_closed: read(&self.breaker_closed),
        }
    }
}
