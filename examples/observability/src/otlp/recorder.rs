//! Forwards the metrics of the facade `metrics` to OpenTelemetry.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use opentelemetry::{KeyValue, metrics as otel};

use crate::buckets::BUCKETS;

/// A recorder of what the layer records.
pub(super) struct OtelRecorder {
    meter: otel::Meter,
    /// Instruments with their labels. The layer's labels are bounded, so the maps are.
    counters: RwLock<HashMap<Key, Counter>>,
    gauges: RwLock<HashMap<Key, Gauge>>,
    histograms: RwLock<HashMap<Key, Histogram>>,
}

impl OtelRecorder {
    pub(super) fn new(meter: otel::Meter) -> Self {
        Self {
            meter,
            counters: RwLock::default(),
            gauges: RwLock::default(),
            histograms: RwLock::default(),
        }
    }
}

impl Recorder for OtelRecorder {
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        get_or_insert(&self.counters, key, || {
            let counter = self.meter.u64_counter(key.name().to_owned()).build();
            Counter::from_arc(Arc::new(Labelled { instrument: counter, labels: labels(key) }))
        })
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        get_or_insert(&self.gauges, key, || {
            let gauge = self.meter.f64_gauge(key.name().to_owned()).build();
            Gauge::from_arc(Arc::new(Labelled { instrument: gauge, labels: labels(key) }))
        })
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        get_or_insert(&self.histograms, key, || {
            let mut histogram = self.meter.f64_histogram(key.name().to_owned());
            if let Some((_, buckets)) = BUCKETS.iter().find(|(name, _)| *name == key.name()) {
                histogram = histogram.with_boundaries(buckets.to_vec());
            }
            let instrument = histogram.build();
            Histogram::from_arc(Arc::new(Labelled { instrument, labels: labels(key) }))
        })
    }

    // The layer describes no metrics.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
}

struct Labelled<I> {
    instrument: I,
    labels: Vec<KeyValue>,
}

impl CounterFn for Labelled<otel::Counter<u64>> {
    fn increment(&self, value: u64) {
        self.instrument.add(value, &self.labels);
    }

    /// Does nothing: the layer only increments, and OpenTelemetry has no such operation.
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Labelled<otel::Gauge<f64>> {
    /// Does nothing: the layer only sets, and OpenTelemetry has no such operation.
    fn increment(&self, _: f64) {}

    /// As [`increment`](Self::increment).
    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.instrument.record(value, &self.labels);
    }
}

impl HistogramFn for Labelled<otel::Histogram<f64>> {
    fn record(&self, value: f64) {
        self.instrument.record(value, &self.labels);
    }
}

fn labels(key: &Key) -> Vec<KeyValue> {
    let labels = key.labels();
    labels.map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

fn get_or_insert<V: Clone>(
    map: &RwLock<HashMap<Key, V>>,
    key: &Key,
    make: impl FnOnce() -> V,
) -> V {
    if let Some(found) = map.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return found.clone();
    }
    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
    map.entry(key.clone()).or_insert_with(make).clone()
}
