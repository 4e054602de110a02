//! Metrics by the facade `metrics`: see `docs/guide/metrics.md`.

use std::{
    ptr,
    sync::{Arc, OnceLock},
};

use arc_swap::{ArcSwap, Guard};
use limiter_core::{Decision, ErrorKind, Occupancy, Source};
use metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram, with_recorder,
};

use super::{Event, Outcome};

/// A key that has used more of its limit than this is near it.
const NEAR: f64 = 0.9;

/// The metrics of one rule.
pub(crate) struct Metrics {
    /// The rule's name, and not that of a customer's own policy: there are only so many rules.
    policy: SharedString,
    handles: ArcSwap<Handles>,
}

/// The handles that each request needs, made by one recorder: a look-up by name and labels takes longer than a check.
#[derive(Default)]
struct Handles {
    /// The recorder's address: another one is installed once, or for the time of a test.
    recorder: usize,
    /// By outcome.
    requests: [OnceLock<Counter>; Outcome::NUMBER],
    /// With the limiter's store, which may be another one for a plan.
    elapsed: OnceLock<(&'static str, Histogram)>,
    used: OnceLock<Histogram>,
    utilization: OnceLock<Histogram>,
    near: OnceLock<Counter>,
    in_flight: OnceLock<Gauge>,
}

impl Metrics {
    pub(crate) fn new(rule: &Arc<str>) -> Self {
        let policy = SharedString::from_shared(Arc::clone(rule));
        Self { policy, handles: ArcSwap::default() }
    }

    /// Records an event of the rule.
    pub(crate) fn record(&self, event: &Event<'_>) {
        let policy = || self.policy.clone();
        let Event { outcome, store, elapsed, error, decision, occupancy, .. } = *event;
        let handles = self.handles();
        if outcome.is_of_permit() {
            counter!("ratelimit_in_flight_events_total", "policy" => policy(), "event" => outcome.name())
                .increment(1);
            return;
        }
        if let Some(requests) = handles.requests.get(outcome as usize) {
            let register = || counter!("ratelimit_requests_total", "policy" => policy(), "result" => outcome.name());
            requests.get_or_init(register).increment(1);
        }
        if let Some(elapsed) = elapsed {
            let register = || histogram!("ratelimit_check_duration_seconds", "policy" => policy(), "store" => store);
            match handles.elapsed.get_or_init(|| (store, register())) {
                (of, histogram) if *of == store => histogram.record(elapsed),
                _ => register().record(elapsed),
            }
        }
        if let Some(error) = error {
            counter!("ratelimit_store_errors_total", "policy" => policy(), "kind" => name(error.kind()))
                .increment(1);
        }
        let source = decision.map(Decision::source).or_else(|| occupancy.map(Occupancy::source));
        match (source, decision) {
            // Its usage is a placeholder.
            (Some(Source::FullTable), _) => {
                counter!("ratelimit_full_table_total", "policy" => policy(), "result" => outcome.name())
                    .increment(1);
                return;
            }
            // By this process's share, because the store failed.
            (Some(Source::Local), _) => {
                counter!("ratelimit_local_decisions_total", "policy" => policy(), "result" => outcome.name())
                    .increment(1);
            }
            _ => {}
        }
        if let Some(decision) = decision {
            self.record_usage(&handles, decision);
        }
    }

    fn record_usage(&self, handles: &Handles, decision: &Decision) {
        let policy = || self.policy.clone();
        #[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
        let [used, limit] = [decision.usage().used(), decision.burst()].map(|count| count as f64);
        let utilization = if limit > 0.0 { used / limit } else { 0.0 };
        let register = || histogram!("ratelimit_window_used", "policy" => policy());
        handles.used.get_or_init(register).record(used);
        let register = || histogram!("ratelimit_window_utilization", "policy" => policy());
        handles.utilization.get_or_init(register).record(utilization);
        if utilization > NEAR {
            let register = || counter!("ratelimit_near_limit_total", "policy" => policy());
            handles.near.get_or_init(register).increment(1);
        }
    }

    /// Records that a block of a key has begun.
    pub(crate) fn record_block(&self) {
        drop(self.handles());
        counter!("ratelimit_blocks_total", "policy" => self.policy.clone()).increment(1);
    }

    /// Records that this process holds so many permits more.
    pub(crate) fn record_in_flight(&self, change: f64) {
        let register = || gauge!("ratelimit_in_flight", "policy" => self.policy.clone());
        self.handles().in_flight.get_or_init(register).increment(change);
    }

    /// Returns the handles of the present recorder.
    fn handles(&self) -> Guard<Arc<Handles>> {
        let recorder = with_recorder(|recorder| ptr::from_ref(recorder).cast::<()>().addr());
        let handles = self.handles.load();
        if handles.recorder == recorder {
            return handles;
        }
        describe();
        self.handles.store(Arc::new(Handles { recorder, ..Handles::default() }));
        self.handles.load()
    }
}

/// Gives the recorder the help text of each metric.
fn describe() {
    describe_counter!("ratelimit_requests_total", "Requests, counted once for each rule.");
    describe_histogram!(
        "ratelimit_check_duration_seconds",
        Unit::Seconds,
        "How long the limiter took to decide, without a delay."
    );
    describe_histogram!("ratelimit_window_used", "Permits used by the key just decided.");
    describe_histogram!(
        "ratelimit_window_utilization",
        "The part of its limit that the key just decided has used, from 0 to 1."
    );
    describe_counter!(
        "ratelimit_near_limit_total",
        "Decisions after which more than 0.9 of a limit was used."
    );
    describe_counter!("ratelimit_blocks_total", "Blocks of keys that began.");
    describe_counter!(
        "ratelimit_full_table_total",
        "Decisions without a state, because the table in memory was full."
    );
    describe_counter!(
        "ratelimit_local_decisions_total",
        "Decisions by this process's share of the limit, because the store failed."
    );
    describe_gauge!(
        "ratelimit_in_flight",
        "Permits of requests in flight that this process holds, of all keys."
    );
    describe_counter!(
        "ratelimit_in_flight_events_total",
        "Permits that ended without being given back by their request."
    );
    describe_counter!(
        "ratelimit_store_errors_total",
        "Checks that ended with an error instead of a decision."
    );
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
