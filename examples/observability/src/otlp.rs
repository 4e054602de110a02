//! Metrics and traces by OTLP over HTTP, beside `/metrics`.

mod recorder;

use std::{env, time::Duration};

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusRecorder;
use metrics_util::layers::FanoutBuilder;
use opentelemetry::{metrics::MeterProvider, trace::TracerProvider};
use opentelemetry_http::{HttpClient, HttpError, hyper::HyperClient};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, trace::SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::{Instrument, Level, field::Empty, info_span};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    registry,
    util::SubscriberInitExt,
};

use self::recorder::OtelRecorder;

/// The name of the service, unless `OTEL_SERVICE_NAME` sets another one.
const SERVICE: &str = "example-observability";

/// How long the collector may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What sends metrics and traces from time to time.
pub(crate) struct Otlp {
    meters: SdkMeterProvider,
    tracers: SdkTracerProvider,
}

/// Returns whether `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector. The exporters read its address.
pub(crate) fn is_configured() -> bool {
    env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
}

impl Otlp {
    /// Installs what records metrics, for Prometheus as well, and what records spans and log lines.
    pub(crate) fn install(prometheus: PrometheusRecorder) -> Result<Self> {
        let client = Client {
            runtime: Handle::current(),
            client: HyperClient::with_default_connector(ANSWERS_WITHIN, None),
        };
        let resource = match env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => Resource::builder().build(),
            None => Resource::builder().with_service_name(SERVICE).build(),
        };

        let exporter = MetricExporter::builder().with_http().with_http_client(client.clone());
        let meters = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter.build()?)
            .with_resource(resource.clone())
            .build();
        let recorder = OtelRecorder::new(meters.meter("limiter-tower"));
        let both = FanoutBuilder::default().add_recorder(prometheus).add_recorder(recorder);
        metrics::set_global_recorder(both.build()).map_err(|error| anyhow!("{error}"))?;

        let exporter = SpanExporter::builder().with_http().with_http_client(client);
        let tracers = SdkTracerProvider::builder()
            .with_batch_exporter(exporter.build()?)
            .with_resource(resource)
            .build();
        // The layer reports refusals at DEBUG, which become events of the request's span.
        let recorded =
            Targets::new().with_target("limiter_tower", Level::DEBUG).with_default(Level::INFO);
        let spans = tracing_opentelemetry::layer().with_tracer(tracers.tracer("limiter-tower"));
        let lines = fmt::layer().with_writer(std::io::stderr).with_filter(LevelFilter::INFO);
        registry().with(lines).with(spans.with_filter(recorded)).try_init()?;
        Ok(Self { meters, tracers })
    }

    /// Sends what was not sent yet. It blocks, for at most as long as the collector may take.
    pub(crate) fn shut_down(&self) -> Result<()> {
        self.tracers.shutdown()?;
        Ok(self.meters.shutdown()?)
    }
}

/// Opens a span for each request. The query is left out of it, because it may name a user.
pub(crate) fn traced(app: Router) -> Router {
    app.layer(from_fn(async |request: Request, next: Next| -> Response {
        let path = request.uri().path();
        let span = info_span!("request", method = %request.method(), path, status = Empty);
        let response = next.run(request).instrument(span.clone()).await;
        span.record("status", response.status().as_u16());
        response
    }))
}

/// Sends the exporters' requests from the runtime, because the exporters have threads of their own.
#[derive(Clone, Debug)]
struct Client {
    runtime: Handle,
    client: HyperClient,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}
