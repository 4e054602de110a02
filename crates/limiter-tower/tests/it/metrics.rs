//! The metrics of each outcome.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use ::metrics::{Counter, Gauge, Histogram, KeyName, Metadata, SharedString, Unit};
use limiter_core::{InFlight, OnFull};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::*;

/// What was recorded: names with labels, and counts or values.
pub(crate) type Recorded = BTreeMap<String, Vec<f64>>;

pub(crate) fn record(work: impl Future<Output = ()>) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    ::metrics::with_local_recorder(&recorder, || runtime.block_on(work));
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
            send(&service, request()).await;
        }
    })
}

fn policy(permits: u64) -> Policy {
    Policy::gcra("default", Quota::per_hour(permits))
}

fn keyed(policy: Policy) -> Rule {
    for_all(limiter_of(policy).0)
}

/// Sends requests through a layer, and compares the values of metrics. One that is not recorded has none.
#[track_caller]
fn assert_recorded(layer: &RateLimitLayer, count: usize, metrics: &[(&str, &[f64])]) {
    let recorded = requests(layer, count);
    for (name, expected) in metrics {
        let found = recorded.get(&format!("ratelimit_{name}")).map_or(&[][..], Vec::as_slice);
        assert_eq!(found, *expected, "{name} of {layer:?}");
    }
}

#[test]
fn each_outcome_is_counted_by_its_name() {
    let two = || keyed(policy(2));
    let failed = || for_all(returning(Err(ErrorKind::Unavailable)));
    let key = || HeaderKey::new(HeaderName::from_static("x-api-key")).assume_verified();
    let limiter = || limiter_of(policy(2)).0;
    let off = layer_of([two()]);
    off.switch_off();
    let rows = [
        (layer_of([two()]), &[("allowed", 2.0), ("denied", 3.0)][..]),
        (layer_of([two().with_mode(Mode::SHADOW)]), &[("allowed", 2.0), ("shadow_denied", 3.0)]),
        (layer_of([Rule::new(limiter(), key().or_skip())]), &[("bypassed", 5.0)]),
        (layer_of([Rule::new(limiter(), key().or_reject())]), &[("rejected", 5.0)]),
        (layer_of([failed().on_store_failure(OnStoreFailure::Allow)]), &[("error_allowed", 5.0)]),
        (layer_of([failed().on_store_failure(OnStoreFailure::Deny)]), &[("error_denied", 5.0)]),
        (layer_of([two()]).skip(|_| true), &[("bypassed", 5.0)]),
        (off, &[("bypassed", 5.0)]),
    ];
    let prefix = "ratelimit_requests_total policy=default result=";
    for (layer, expected) in rows {
        let recorded = requests(&layer, 5);
        let results = recorded.iter().filter_map(|(name, values)| {
            Some((name.strip_prefix(prefix)?, values.iter().sum::<f64>()))
        });
        assert_eq!(results.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_delayed_request_is_counted_apart() {
    let (limiter, clock) = limiter_of(policy(2));
    let half_an_hour = Duration::from_secs(1_800);
    let wait = Wait::up_to(half_an_hour).queue(1).clock(clock.clone());
    let layer = layer_of([Rule::waiting(limiter, FixedKey::new("all"), wait)]);
    let recorded = record(async {
        let service = layer.layer(service_fn(hello));
        let request = || send(&service, request_from("192.0.2.1"));
        tokio::join!(request(), request(), request(), request(), async {
            clock.advance(half_an_hour);
        });
    });
    for (result, count) in [("allowed", 2.0), ("delayed", 1.0), ("denied", 1.0)] {
        let name = format!("ratelimit_requests_total policy=default result={result}");
        assert_eq!(recorded[&name], [count]);
    }
}

#[test]
fn rules_are_counted_one_by_one() {
    let other = Rule::new(hourly("other", 1), FixedKey::new("other"));
    let layer = layer_of([keyed(policy(2)), other]);
    // A rule that would have admitted the request charges and counts nothing when the other one refuses.
    let metrics: [(&str, &[f64]); 4] = [
        ("requests_total policy=default result=allowed", &[1.0]),
        ("requests_total policy=default result=denied", &[]),
        ("requests_total policy=other result=allowed", &[1.0]),
        ("requests_total policy=other result=denied", &[2.0]),
    ];
    assert_recorded(&layer, 3, &metrics);
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
        let by = |source| layer_of([for_all(returning(Ok(decision.with_source(source))))]);
        let local = format!("local_decisions_total policy=default result={result}");
        let requests = format!("requests_total policy=default result={result}");
        let metrics: [(&str, &[f64]); 3] = [
            (&local, &[3.0]),
            (&requests, &[3.0]),
            ("window_utilization policy=default", &[1.0; 3]),
        ];
        assert_recorded(&by(Source::Local), 3, &metrics);
        for source in [Source::State, Source::Cache, Source::Lease] {
            assert_recorded(&by(source), 3, &[(&local, &[])]);
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
        let name = format!("store_errors_total kind={label} policy=default");
        assert_recorded(&layer_of([for_all(returning(Err(kind)))]), 2, &[(&name, &[2.0])]);
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

impl ::metrics::Recorder for LookUps {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &::metrics::Key, _: &Metadata<'_>) -> Counter {
        self.0.fetch_add(1, Relaxed);
        Counter::noop()
    }

    fn register_gauge(&self, _: &::metrics::Key, _: &Metadata<'_>) -> Gauge {
        self.0.fetch_add(1, Relaxed);
        Gauge::noop()
    }

    fn register_histogram(&self, _: &::metrics::Key, _: &Metadata<'_>) -> Histogram {
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
                send(&service, request()).await;
                drop(uploads.clone().oneshot(request()).await.unwrap());
            }
        };
        ::metrics::with_local_recorder(recorder, || runtime.block_on(work));
    }
    // Of the rate: each of two results, the time, the number, the share and that it is high. In flight: the result, the
    // time and the gauge.
    assert_eq!(recorders.map(|recorder| recorder.0.into_inner()), [9, 8]);
}
