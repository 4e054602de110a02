//! The counters of a limiter in this process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limiter_core::Decision;

/// A counter in a cache line of its own, because several threads write different counters at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    #[inline]
    pub(crate) fn add_many(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }
}

impl Tally {
    /// Counts a decision of the store.
    #[inline]
    pub(crate) fn decided(&self, decision: &Decision) {
        let count = if decision.is_admitted() { &self.admitted } else { &self.refused };
        count.add();
    }
}

/// Defines the counters as they are read, and as they count.
macro_rules! counters {
    ($($(#[$docs:meta])+ $name:ident,)+) => {
        /// What a limiter and all its handles have counted in this process since the limiter was built.
        ///
        /// A check that ends with a decision is in one of `admitted`, `refused` and `cached`; a request in flight may be in
        /// `decided_locally` instead. Each counter only grows. The counters are read one after the other, so checks that
        /// end meanwhile may be in some and not yet in others.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$docs])+ pub $name: u64,)+
        }

        /// The counters while they count.
        #[derive(Debug, Default)]
        pub(crate) struct Tally {
            $(pub(crate) $name: Count,)+
        }

        impl Tally {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Checks and reservations that were admitted by the store, or by a lease that it granted.
    admitted,
    /// Checks and reservations that the store refused.
    refused,
    /// Checks that were refused by a cached denial, or because a lease is not asked for yet, without asking the
    /// store.
    cached,
    /// Requests in flight and peeks that this process's [share](crate::RedisInFlightBuilder::local_share) answered.
    decided_locally,
    /// Operations that the store did not execute: it was unreachable, busy, or could not write.
    unavailable,
    /// Operations that were sent and got no reply in time: each may have charged or not.
    undetermined,
    /// Operations that got a reply that this library never expects, such as for a foreign value at a key.
    unexpected,
    /// Refunds that the store did not confirm, so that their permits may stay charged.
    refunds_failed,
    /// Leases that the store granted.
    leases,
    /// Permits of these leases: the sum of `leased`, `lease_unused` and `lease_returned`, and of the permits of
    /// leases that have not ended.
    lease_permits,
    /// Permits that were spent, of leases that have ended. Their checks were counted in `admitted` at once.
    leased,
    /// Permits that were not spent before their lease ended.
    lease_unused,
    /// Permits that were given back to the store.
    lease_returned,
    /// Calls that renewed permits of requests in flight.
    renewals,
    /// Permits of requests in flight that were lost: they did not count any more, although their requests held them.
    permits_lost,
    /// Permits of requests in flight that the store did not have when they were renewed, and that were added again.
    permits_restored,
    /// Permits of requests in flight that were not given back, so that they counted until they expired. Lost ones are
    /// only in `permits_lost`.
    releases_failed,
    /// Operations that were not sent, because the circuit breaker was open.
    short_circuited,
    /// Events that the observer did not receive, because 1,024 waited for it already.
    unobserved,
    /// How many times the circuit breaker of the connection opened, which the limiters on it share.
    breaker_opened,
    /// How many times the circuit breaker closed again. In a cluster there is one for each node, and all are
    /// counted together.
    breaker_closed,
}
