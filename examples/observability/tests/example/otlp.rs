//! A receiver of OTLP over HTTP, as a collector is.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, TcpListener},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use limiter_rig::{program::Program, server::Server};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value::StringValue},
    metrics::v1::{metric::Data, number_data_point::Value::AsInt},
};
use prost::Message;
use tokio::runtime::Runtime;

use crate::{command, load, requests_total};

/// How long the first figures may take to arrive, on a machine that is busy with other tests.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// Receives on a free port, until it is dropped.
pub(crate) struct Receiver {
    address: String,
    received: Arc<Received>,
    /// Serves until it is dropped.
    _runtime: Runtime,
}

#[derive(Default)]
struct Received {
    /// The latest figures: the metric's name and the value of one of its labels.
    figures: Mutex<BTreeMap<(String, String), u64>>,
    /// The names of spans, and of their events.
    spans: Mutex<BTreeSet<String>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let received = Arc::new(Received::default());
        let app = Router::new()
            .route("/v1/metrics", post(receive_metrics))
            .route("/v1/traces", post(receive_traces))
            .with_state(Arc::clone(&received));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let runtime = Runtime::new().unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await
        });
        Self { address, received, _runtime: runtime }
    }

    /// Makes a program send to this receiver, several times a second.
    pub(crate) fn configure<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*format!("http://{}", self.address)),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
            ("OTEL_BSP_SCHEDULE_DELAY", "500"),
        ])
    }

    /// Returns a counter by its name and one of its labels. A histogram has the figures `NAME count` and
    /// `NAME up to 0.9`.
    pub(crate) fn figure(&self, name: &str, label: &str) -> Option<u64> {
        let figures = self.received.figures.lock().unwrap();
        figures.get(&(name.to_owned(), label.to_owned())).copied()
    }
}

async fn receive_metrics(State(received): State<Arc<Received>>, body: Bytes) {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let mut figures = received.figures.lock().unwrap();
    let mut set = |name: &str, labels: &[KeyValue], figure: u64| {
        for label in texts(labels) {
            figures.insert((name.to_owned(), label), figure);
        }
    };
    for metric in scopes.flat_map(|scope| scope.metrics) {
        match metric.data {
            Some(Data::Sum(sum)) => {
                for point in sum.data_points {
                    let Some(AsInt(value)) = point.value else {
                        panic!("no whole number: {point:?}")
                    };
                    set(&metric.name, &point.attributes, value.try_into().unwrap());
                }
            }
            Some(Data::Histogram(histogram)) => {
                for point in histogram.data_points {
                    set(&format!("{} count", metric.name), &point.attributes, point.count);
                    if let Some(index) = point.explicit_bounds.iter().position(|end| *end == 0.9) {
                        let low = point.bucket_counts[..=index].iter().sum();
                        set(&format!("{} up to 0.9", metric.name), &point.attributes, low);
                    }
                }
            }
            data => panic!("neither a counter nor a histogram: {data:?}"),
        }
    }
}

async fn receive_traces(State(received): State<Arc<Received>>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let mut names = received.spans.lock().unwrap();
    for span in scopes.flat_map(|scope| scope.spans) {
        names.extend(span.events.into_iter().map(|event| format!("{}: {}", span.name, event.name)));
        names.insert(span.name);
    }
}

fn texts(labels: &[KeyValue]) -> Vec<String> {
    let values = labels.iter().map(|label| label.value.clone().unwrap().value);
    values
        .map(|value| match value {
            Some(StringValue(text)) => text,
            other => panic!("no text: {other:?}"),
        })
        .collect()
}

#[test]
fn metrics_and_spans_arrive_by_otlp() {
    let receiver = Receiver::start();
    let program = Program::start(receiver.configure(&mut command()).env("LIMIT", "2/h"));
    let statuses = [(); 3].map(|()| program.curl(&[], "/").status);
    assert_eq!(statuses, [200, 200, 429]);

    let expected = [
        ("ratelimit_requests_total", "allowed", 2),
        ("ratelimit_requests_total", "denied", 1),
        ("ratelimit_check_duration_seconds count", "memory", 3),
        ("ratelimit_window_utilization count", "api", 3),
        ("ratelimit_window_utilization up to 0.9", "api", 1),
    ];
    let deadline = Instant::now() + ARRIVES_WITHIN;
    let refused = "request: request refused";
    let have_arrived = || {
        expected.iter().all(|(name, label, value)| receiver.figure(name, label) == Some(*value))
            && receiver.received.spans.lock().unwrap().contains(refused)
    };
    while !have_arrived() {
        let [figures, spans] =
            [format!("{:?}", receiver.received.figures), format!("{:?}", receiver.received.spans)];
        assert!(Instant::now() < deadline, "{figures}\n{spans}");
        thread::sleep(Duration::from_millis(50));
    }
    // `/metrics` is served as well.
    assert_eq!(requests_total(&program, ["allowed", "denied"]), [2, 1]);
}

#[test]
fn leased_permits_arrive_by_otlp() {
    let (receiver, redis) = (Receiver::start(), Server::start());
    let settings = [("REDIS_URL", &*redis.url()), ("LIMIT", "20_000/s"), ("DEADLINE_MS", "20000")];
    let program = Program::start(receiver.configure(&mut command()).envs(settings));
    load::send(program.address(), Ipv4Addr::new(192, 0, 2, 1), 1_000);

    let permits = |result| receiver.figure("ratelimit_lease_permits_total", result).unwrap_or(0);
    let deadline = Instant::now() + ARRIVES_WITHIN;
    loop {
        let [granted, spent, unused] = ["granted", "spent", "unused"].map(permits);
        // All leases have ended.
        if spent >= 500 && granted == spent + unused {
            return println!("OTLP: {granted} granted = {spent} spent + {unused} unused");
        }
        assert!(Instant::now() < deadline, "{granted} granted, {spent} spent, {unused} unused");
        thread::sleep(Duration::from_millis(50));
    }
}
