//! The recorder for Prometheus.

use std::time::Duration;

use anyhow::Result;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use crate::buckets::BUCKETS;

/// Between two scrapes the recorder keeps each sample of a histogram. This bounds for how long.
const UPKEEP: Duration = Duration::from_secs(1);

/// Returns the recorder, which has to be installed.
pub(crate) fn recorder() -> Result<PrometheusRecorder> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let recorder = builder.build_recorder();

    let upkeep = recorder.handle();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(recorder)
}
