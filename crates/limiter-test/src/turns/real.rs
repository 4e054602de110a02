//! A policy's transition, asked like a model.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Policy, Receipt, Timestamp};

use super::{PARTS, Quota, Turns};
use crate::subject::{Operations, Subject};

/// A limiter whose policies take turns on one key. A unit of time is a second.
#[derive(Debug)]
pub struct Real<S> {
    subject: S,
    algorithm: Algorithm,
    receipts: Vec<Option<Receipt>>,
}

impl<S: Operations> Real<S> {
    /// Returns a key of a limiter that `make` builds for the first of these quotas.
    ///
    /// # Panics
    ///
    /// If there are no quotas, or the algorithm can't serve one.
    #[must_use]
    pub fn new(algorithm: Algorithm, quotas: &[Quota], make: impl Fn(Policy) -> S) -> Self {
        let first = quotas.first().expect("there is a quota");
        Self { subject: make(policy(algorithm, *first)), algorithm, receipts: Vec::new() }
    }
}

fn policy(algorithm: Algorithm, quota: Quota) -> Policy {
    let quota = limiter_core::Quota::new(quota.limit, Duration::from_secs(quota.length));
    let policy = Policy::new("test", algorithm, quota.expect("the quota is valid"));
    policy.expect("the algorithm serves it")
}

const fn seconds(units: u64) -> Timestamp {
    Timestamp::from_nanos(units * PARTS)
}

impl<S: Operations> Turns for Real<S> {
    fn take(&mut self, now: u64, quota: Quota, cost: u64, within: u64) -> Option<u64> {
        Subject::switch(&mut self.subject, &policy(self.algorithm, quota));
        let within = Duration::from_secs(within);
        let reservation = self.subject.reserve(seconds(now), "key", Cost::of(cost), within);
        let at = seconds(now).saturating_add(reservation.delay()?);
        self.receipts.push(reservation.into_receipt());
        Some(at.as_nanos())
    }

    fn refund(&mut self, now: u64, charge: usize, permits: u64) -> u64 {
        let Some(receipt) = self.receipts[charge].take() else {
            return 0;
        };
        let kept = receipt.permits() - permits.min(receipt.permits());
        self.subject.refund(seconds(now), receipt.keep(kept))
    }
}
