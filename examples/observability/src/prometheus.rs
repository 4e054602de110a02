//! The recorder for Prometheus.

use std::time::Duration;

use anyhow::Result;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::buckets::BUCKETS;

/// Between two scrapes the recorder keeps each sample of a histogram. This bounds for how long.
const UPKEEP: Duration = Duration::from_secs(1);

/// Installs the recorder, and returns what renders its metrics.
pub(crate) fn install() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let handle = builder.install_recorder()?;

    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}
