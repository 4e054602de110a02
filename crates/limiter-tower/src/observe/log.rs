//! Log lines, with the feature `tracing`. Keys are left out of them.

use limiter_core::{Decision, Error, KnownQuotas, Policy};

use crate::{OnMissing, key::MissingKey, rule::OnStoreFailure};

macro_rules! log {
    ($level:ident, $policy:expr, $($rest:tt)+) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "limiter_tower", policy = $policy.name(), $($rest)+)
    };
}

pub(crate) fn refused(policy: &Policy, decision: &Decision) {
    log!(debug, policy, retry_after = ?decision.retry_after(), "request refused");
    let _ = (policy, decision);
}

pub(crate) fn store_failed(policy: &Policy, then: OnStoreFailure, error: &Error) {
    log!(warn, policy, ?then, "rate limit store failed: {error}");
    let _ = (policy, then, error);
}

pub(crate) fn store_recovered(policy: &Policy) {
    log!(info, policy, "rate limit store recovered");
    let _ = policy;
}

/// A limiter that can't decide because of how the server is set up, logged once.
pub(crate) fn misconfigured(policy: &Policy, error: &Error) {
    log!(error, policy, "rate limit misconfigured, so requests are rejected: {error}");
    let _ = (policy, error);
}

/// A limiter that can know few more quotas, logged once.
pub(crate) fn many_quotas(policy: &Policy, quotas: KnownQuotas) {
    let KnownQuotas { known, capacity } = quotas;
    log!(
        warn,
        policy,
        known,
        capacity,
        "rate limiter knows most of the quotas that it can know, and then fails for new ones: round \
         quotas to steps, or build it with wide_states"
    );
    let _ = (policy, known, capacity);
}

/// A fault of the server, logged once.
pub(crate) fn no_key_by_server(policy: &Policy, then: OnMissing, missing: &MissingKey) {
    log!(error, policy, ?then, "no rate limit key: {missing}");
    let _ = (policy, then, missing);
}

pub(crate) fn no_key(policy: &Policy, then: OnMissing, missing: &MissingKey) {
    log!(debug, policy, ?then, "no rate limit key: {missing}");
    let _ = (policy, then, missing);
}
