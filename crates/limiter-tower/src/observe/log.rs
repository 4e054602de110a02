//! Log lines, with the feature `tracing`. Keys are left out of them.

#![cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, clippy::missing_const_for_fn, reason = "they are only logged")
)]

use std::time::Duration;

use limiter_core::{Decision, Error, Occupancy, OnStoreFailure};

use crate::key::MissingKey;

/// Writes a log line of a rule.
macro_rules! log {
    ($level:ident, $rule:expr, $($rest:tt)+) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "limiter_tower", policy = $rule, $($rest)+)
    };
}

pub(crate) fn refused(rule: &str, decision: &Decision) {
    log!(debug, rule, retry_after = ?decision.retry_after(), "request refused");
}

pub(crate) fn in_flight_refused(rule: &str, occupancy: Occupancy) {
    log!(debug, rule, limit = occupancy.limit(), "request refused: too many are in flight");
}

/// A permit that does not count any more, although its request goes on.
pub(crate) fn permit_lost(rule: &str, event: &'static str) {
    log!(warn, rule, event, "a request in flight has lost its permit");
}

/// An upgrade whose permit was given back with the response, logged once.
pub(crate) fn upgrade_without_hold(rule: &str) {
    log!(
        warn,
        rule,
        "a response switched protocols, and its permit was given back: hold it in the handler by \
         `RequestPermit::hold`, or the new protocol is not limited"
    );
}

pub(crate) fn blocked(rule: &str, length: Duration) {
    log!(info, rule, ?length, "a key is blocked");
}

pub(crate) fn store_failed(rule: &str, then: OnStoreFailure, error: &Error) {
    log!(warn, rule, ?then, "rate limit store failed: {error}");
}

pub(crate) fn store_recovered(rule: &str) {
    log!(info, rule, "rate limit store recovered");
}

/// A limiter that can't decide because of how the server is set up, logged once: on standard error if there is no log,
/// because the remedy is in it.
pub(crate) fn misconfigured(rule: &str, error: &Error) {
    log!(error, rule, "rate limit misconfigured, so requests are rejected: {error}");
    #[cfg(not(feature = "tracing"))]
    eprintln!("limiter-tower: rule {rule:?} is misconfigured, so requests are rejected: {error}");
}

/// Limits of a new policy under which all keys begin fresh.
pub(crate) fn limits_reset(rule: &str, limits: &[&str]) {
    log!(info, rule, ?limits, "keys begin fresh under limits of another span");
}

/// A rule that was asked without a request, although its plan depends on it.
pub(crate) fn plan_needs_request(rule: &str) {
    log!(
        error,
        rule,
        "the rule's plan depends on the request: ask it with the request, or under a plan by `under`"
    );
}

/// A limit on requests in flight that was asked without a request, although it depends on it.
pub(crate) fn limit_needs_request(rule: &str) {
    log!(
        error,
        rule,
        "the rule's limit depends on the request: enter it with the request, or say the limit by `limit`"
    );
}

/// A fault of the server, logged once: on standard error if there is no log, because the remedy is in it.
pub(crate) fn no_key_by_server(rule: &str, missing: &MissingKey) {
    log!(error, rule, "no rate limit key: {missing}");
    #[cfg(not(feature = "tracing"))]
    eprintln!("limiter-tower: rule {rule:?} has no key: {missing}");
}

pub(crate) fn no_key(rule: &str, missing: &MissingKey) {
    log!(debug, rule, "no rate limit key: {missing}");
}
