//! Metrics by the facade `metrics`: see `docs/metrics.md`.

use std::sync::Arc;

use limiter_core::{Decision, ErrorKind, KnownQuotas, Policy, Source};
use metrics::{SharedString, counter, gauge, histogram};

use super::Event;

/// A key that has used more of its limit than this is near it.
const NEAR: f64 = 0.9;

/// Records what one rule did with one request.
///
/// The handles are not kept from one request to the next: they would stay bound to the recorder that
/// was installed when they were made, or to none.
pub(crate) fn record(event: &Event<'_>, rule: &Arc<str>) {
    // The rule's name, and not that of a customer's own policy: there are only so many rules.
    let policy = SharedString::from_shared(Arc::clone(rule));
    counter!("ratelimit_requests_total", "policy" => policy.clone(), "result" => event.outcome.name())
        .increment(1);
    if let Some(elapsed) = event.elapsed {
        histogram!("ratelimit_check_duration_seconds", "policy" => policy.clone(), "store" => event.store)
            .record(elapsed);
    }
    if let Some(error) = event.error {
        counter!("ratelimit_store_errors_total", "policy" => policy.clone(), "kind" => name(error.kind()))
            .increment(1);
    }
    match event.decision.map(|decision| (decision, decision.source())) {
        // The usage of a decision without a state is a placeholder.
        None | Some((_, Source::Failure)) => {}
        Some((_, Source::FullTable)) => {
            counter!("ratelimit_full_table_total", "policy" => policy, "result" => event.outcome.name())
                .increment(1);
        }
        Some((decision, _)) => record_usage(&policy, decision),
    }
}

/// Records that a block of a key has begun.
pub(crate) fn record_block(rule: &Arc<str>) {
    counter!("ratelimit_blocks_total", "policy" => SharedString::from_shared(Arc::clone(rule)))
        .increment(1);
}

fn record_usage(policy: &SharedString, decision: &Decision) {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
    let [used, limit] = [decision.usage().used(), decision.burst()].map(|count| count as f64);
    let utilization = if limit > 0.0 { used / limit } else { 0.0 };
    histogram!("ratelimit_window_count", "policy" => policy.clone()).record(used);
    histogram!("ratelimit_window_utilization", "policy" => policy.clone()).record(utilization);
    if utilization > NEAR {
        counter!("ratelimit_near_limit_total", "policy" => policy.clone()).increment(1);
    }
}

/// Records how many quotas a limiter knows, whose first plan has this policy.
pub(crate) fn record_quotas(policy: &Policy, quotas: KnownQuotas) {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
    let [known, capacity] = [quotas.known, quotas.capacity].map(|count| count as f64);
    gauge!("ratelimit_known_quotas_ratio", "policy" => policy.name().to_owned())
        .set(known / capacity);
}

/// Returns the kind of a store's error, as a label.
const fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Undetermined => "undetermined",
        ErrorKind::Unexpected => "unexpected",
        _ => "invalid",
    }
}
