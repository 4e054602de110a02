//! Metrics by the facade `metrics`: see `docs/guide/metrics.md`.

use std::sync::Arc;

use limiter_core::{Decision, ErrorKind, Occupancy, Source};
use metrics::{SharedString, counter, gauge, histogram};

use super::{Event, Outcome};

/// A key that has used more of its limit than this is near it.
const NEAR: f64 = 0.9;

/// Records an event of a rule.
///
/// The handles are not kept from one request to the next: they would stay bound to the recorder that
/// was installed when they were made, or to none.
pub(crate) fn record(event: &Event<'_>, rule: &Arc<str>) {
    // The rule's name, and not that of a customer's own policy: there are only so many rules.
    let policy = label(rule);
    let Event { outcome, store, elapsed, error, decision, occupancy, .. } = *event;
    if outcome.is_of_permit() {
        counter!("ratelimit_in_flight_events_total", "policy" => policy, "event" => outcome.name())
            .increment(1);
        return;
    }
    counter!("ratelimit_requests_total", "policy" => policy.clone(), "result" => outcome.name())
        .increment(1);
    if let Some(elapsed) = elapsed {
        histogram!("ratelimit_check_duration_seconds", "policy" => policy.clone(), "store" => store)
            .record(elapsed);
    }
    if let Some(error) = error {
        counter!("ratelimit_store_errors_total", "policy" => policy.clone(), "kind" => name(error.kind()))
            .increment(1);
    }
    let source = decision.map(Decision::source).or_else(|| occupancy.map(Occupancy::source));
    if let Some(decision) = decision.filter(|_| source != Some(Source::FullTable)) {
        record_usage(&policy, decision);
    }
    match source {
        // Its usage is a placeholder.
        Some(Source::FullTable) => record_full_table(policy, outcome),
        Some(Source::Local) => record_local(policy, outcome),
        _ => {}
    }
}

/// Records a decision by this process's share, because the store failed.
fn record_local(policy: SharedString, outcome: Outcome) {
    counter!("ratelimit_local_decisions_total", "policy" => policy, "result" => outcome.name())
        .increment(1);
}

fn record_full_table(policy: SharedString, outcome: Outcome) {
    counter!("ratelimit_full_table_total", "policy" => policy, "result" => outcome.name())
        .increment(1);
}

/// Records that this process holds a permit more.
pub(crate) fn in_flight_taken(rule: &Arc<str>) {
    gauge!("ratelimit_in_flight", "policy" => label(rule)).increment(1.0);
}

/// Records that this process holds a permit less.
pub(crate) fn in_flight_given_back(rule: &Arc<str>) {
    gauge!("ratelimit_in_flight", "policy" => label(rule)).decrement(1.0);
}

fn label(rule: &Arc<str>) -> SharedString {
    SharedString::from_shared(Arc::clone(rule))
}

/// Records that a block of a key has begun.
pub(crate) fn record_block(rule: &Arc<str>) {
    counter!("ratelimit_blocks_total", "policy" => label(rule)).increment(1);
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

/// Returns the kind of a store's error, as a label.
const fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Undetermined => "undetermined",
        ErrorKind::Unexpected => "unexpected",
        _ => "invalid",
    }
}
