//! The metrics of each outcome.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use http::Request;
use limiter_core::{
    Decision, Error, ErrorKind, InFlight, LimiterFuture, MemoryLimiter, OnFull, Policy, Quota,
    Source, Usage,
};
use limiter_test::fake::Fake;
use limiter_tower::{
    InFlightLayer, RateLimitLayer, Rule,
    key::{FixedKey, HeaderKey, MaybeKey, key_fn},
    rule::{Mode, OnStoreFailure},
};
use metrics::{Counter, Gauge, Histogram, KeyName, Metadata, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    Body, by_address, for_all, hello, layer_of, limiter_of, per_address, request_from, send,
};

/// What was recorded: names with labels, and counts or values.
pub(crate) type Recorded = BTreeMap<String, Vec<f64>>;

pub(crate) fn record(work: impl Future<Output = ()>) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    let entry =
        |(key, _, help, value): (metrics_util::CompositeKey, _, Option<SharedString>, _)| {
            let key = key.key();
            assert!(help.is_some(), "{} has no help text", key.name());
            let mut labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
            let values = match value {
                DebugValue::Counter(count) => vec![count as f64],
                DebugValue::Gauge(value) => vec![value.into_inner()],
                DebugValue::Histogram(values) => values.into_iter().map(Into::into).collect(),
            };
            (format!("{} {}", key.name(), labels.join(" ")), values)
        };
    snapshotter.snapshot().into_vec().into_iter().map(entry).collect()
}

/// Records so many requests through one layer.
fn requests(layer: &RateLimitLayer, count: usize) -> Recorded {
    record(async {
        let service = layer.layer(service_fn(hello));
        for _ in 0..count {
            send(&service, request_from("192.0.2.1")).await;
        }
    })
}

fn results(recorded: &Recorded) -> Vec<(&str, f64)> {
    let prefix = "ratelimit_requests_total policy=default result=";
    let own =
        recorded.iter().filter_map(|(name, values)| Some((name.strip_prefix(prefix)?, values)));
    own.map(|(name, values)| (name, values.iter().sum())).collect()
}

fn policy(permits: u64) -> Policy {
    Policy::gcra("default", Quota::per_hour(permits))
}

fn keyed(policy: Policy) -> Rule {
    for_all(limiter_of(policy).0)
}

/// Returns a rule whose limiter returns this.
fn returning(result: Result<Decision, ErrorKind>) -> Rule {
    let limiter = Fake::new(policy(10), move || {
        LimiterFuture::ready(result.map_err(|kind| Error::new(kind, "no connection")))
    });
    for_all(limiter)
}

#[test]
fn each_outcome_is_counted_by_its_name() {
    let failed = || returning(Err(ErrorKind::Unavailable));
    let key = || HeaderKey::new(http::HeaderName::from_static("x-api-key")).assume_verified();
    let limiter = || limiter_of(policy(2)).0;
    let rows = [
        (keyed(policy(2)), &[("allowed", 2.0), ("denied", 3.0)][..]),
        (keyed(policy(2)).with_mode(Mode::SHADOW), &[("allowed", 2.0), ("shadow_denied", 3.0)]),
        (Rule::new(limiter(), key().or_skip()), &[("bypassed", 5.0)]),
        (Rule::new(limiter(), key().or_reject()), &[("rejected", 5.0)]),
        (failed().on_store_failure(OnStoreFailure::Allow), &[("error_allowed", 5.0)]),
        (failed().on_store_failure(OnStoreFailure::Deny), &[("error_denied", 5.0)]),
    ];
    for (rule, expected) in rows {
        assert_eq!(results(&requests(&layer_of([rule]), 5)), expected);
    }
    let skipping = layer_of([keyed(policy(2))]).skip(|_| true);
    assert_eq!(results(&requests(&skipping, 5)), [("bypassed", 5.0)]);
    let off = layer_of([keyed(policy(2))]);
    off.switch_off();
    assert_eq!(results(&requests(&off, 5)), [("bypassed", 5.0)]);
}

#[test]
fn rules_are_counted_one_by_one() {
    let other = limiter_of(Policy::gcra("other", Quota::per_hour(1))).0;
    let layer = layer_of([keyed(policy(2)), Rule::new(other, FixedKey::new("other"))]);
    let recorded = requests(&layer, 3);
    // A rule that would have admitted the request charges and counts nothing when the other one refuses.
    assert_eq!(results(&recorded), [("allowed", 1.0)]);
    let of_other =
        |result| &recorded[&format!("ratelimit_requests_total policy=other result={result}")];
    assert_eq!((of_other("allowed"), of_other("denied")), (&vec![1.0], &vec![2.0]));
}

#[test]
fn usage_is_recorded_for_each_decision() {
    let recorded = requests(&layer_of([keyed(policy(10))]), 11);
    let counts: Vec<_> = (1..=10).chain([10]).map(f64::from).collect();
    assert_eq!(recorded["ratelimit_window_used policy=default"], counts);
    let parts: Vec<_> = counts.iter().map(|count| count / 10.0).collect();
    assert_eq!(recorded["ratelimit_window_utilization policy=default"], parts);
    assert_eq!(recorded["ratelimit_near_limit_total policy=default"], [2.0]);
    let durations = &recorded["ratelimit_check_duration_seconds policy=default store=memory"];
    assert_eq!(durations.len(), 11);
    assert!(durations.iter().all(|seconds| (0.0..60.0).contains(seconds)), "{durations:?}");
}

#[test]
fn decisions_without_a_slot_are_counted() {
    for (on_full, result) in [(OnFull::Refuse, "denied"), (OnFull::Admit, "allowed")] {
        let builder = MemoryLimiter::builder(policy(2)).capacity(1).on_full(on_full);
        let layer = per_address(builder.build().unwrap());
        let recorded = record(async {
            let service = layer.layer(service_fn(hello));
            for client in 0..10 {
                send(&service, request_from(&format!("192.0.2.{client}"))).await;
            }
        });
        // Eight keys have a slot.
        let name = format!("ratelimit_full_table_total policy=default result={result}");
        assert_eq!(recorded[&name], [2.0]);
        assert_eq!(recorded["ratelimit_window_used policy=default"].len(), 8);
    }
}

#[test]
fn decisions_by_the_local_share_are_counted_with_their_usage() {
    let usage = Usage::new(5, 0, Duration::ZERO);
    let wait = Some(Duration::from_secs(60));
    for (decision, result) in
        [(Decision::admitted(usage), "allowed"), (Decision::refused(usage, wait), "denied")]
    {
        let of = |source| requests(&layer_of([returning(Ok(decision.with_source(source)))]), 3);
        let local = of(Source::Local);
        let name = format!("ratelimit_local_decisions_total policy=default result={result}");
        assert_eq!(local[&name], [3.0]);
        assert_eq!(results(&local), [(result, 3.0)]);
        assert_eq!(local["ratelimit_window_utilization policy=default"], [1.0; 3]);
        for source in [Source::State, Source::Cache, Source::Lease] {
            assert!(!of(source).contains_key(&name), "{source:?}");
        }
    }
}

#[test]
fn errors_of_the_store_are_counted_by_kind() {
    for (kind, label) in [
        (ErrorKind::Unavailable, "unavailable"),
        (ErrorKind::Undetermined, "undetermined"),
        (ErrorKind::Unexpected, "unexpected"),
        (ErrorKind::InvalidSetting, "invalid"),
    ] {
        let recorded = requests(&layer_of([returning(Err(kind))]), 2);
        let name = format!("ratelimit_store_errors_total kind={label} policy=default");
        assert_eq!(recorded[&name], [2.0]);
    }
}

#[test]
fn no_label_depends_on_a_request() {
    let series = |clients: u8| {
        let by_path = key_fn(|head| Some(head.path().into())).or_reject();
        let paths = limiter_of(Policy::gcra("path", Quota::per_hour(2))).0;
        let layer = layer_of([by_address(limiter_of(policy(2)).0), Rule::new(paths, by_path)]);
        let recorded = record(async {
            let service = layer.layer(service_fn(hello));
            for client in 0..clients {
                for _ in 0..3 {
                    let mut request: Request<Body> = request_from(&format!("192.0.2.{client}"));
                    *request.uri_mut() = format!("/{client}").parse().unwrap();
                    send(&service, request).await;
                }
            }
        });
        recorded.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(series(1).len(), series(100).len());
}

/// Counts how often a metric is looked up.
#[derive(Default)]
struct LookUps(AtomicU32);

impl metrics::Recorder for LookUps {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &metrics::Key, _: &Metadata<'_>) -> Counter {
        self.0.fetch_add(1, Relaxed);
        Counter::noop()
    }

    fn register_gauge(&self, _: &metrics::Key, _: &Metadata<'_>) -> Gauge {
        self.0.fetch_add(1, Relaxed);
        Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &Metadata<'_>) -> Histogram {
        self.0.fetch_add(1, Relaxed);
        Histogram::noop()
    }
}

#[test]
fn a_rule_looks_its_metrics_up_once_for_each_recorder() {
    let recorders = [LookUps::default(), LookUps::default()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let in_flight = InFlight::new("in-flight", 3).unwrap();
    let in_flight = InFlightLayer::new(in_flight, FixedKey::new("all"));
    let service = layer_of([keyed(policy(5))]).layer(service_fn(hello));
    let uploads = in_flight.layer(service_fn(hello));
    for recorder in &recorders {
        let work = async {
            for _ in 0..10 {
                send(&service, request_from("192.0.2.1")).await;
                drop(uploads.clone().oneshot(request_from("192.0.2.1")).await.unwrap());
            }
        };
        metrics::with_local_recorder(recorder, || runtime.block_on(work));
    }
    // Of the rate: each of two results, the time, the number, the share and that it is high. In flight: the result, the
    // time and the gauge.
    assert_eq!(recorders.map(|recorder| recorder.0.into_inner()), [9, 8]);
}
