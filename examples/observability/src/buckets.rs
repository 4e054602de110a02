//! The buckets of the layer's histograms.

/// Fractions of a limit. One bucket ends at 0.9, because the alert asks for more than that.
const FRACTIONS: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];

/// Permits, from one request to a large quota.
const COUNTS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6];

/// Seconds: a check in memory takes about a microsecond, one through Redis about a tenth of a
/// millisecond, and at most its deadline.
const SECONDS: &[f64] = &[
    5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2,
    2.5e-2, 5e-2, 1e-1, 2.5e-1,
];

/// The upper ends of each histogram's buckets.
pub(crate) const BUCKETS: [(&str, &[f64]); 3] = [
    ("ratelimit_window_utilization", FRACTIONS),
    ("ratelimit_window_used", COUNTS),
    ("ratelimit_check_duration_seconds", SECONDS),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LAYER: &str = include_str!("../../../crates/limiter-tower/docs/guide/metrics.md");

    #[test]
    fn each_histogram_of_the_layer_has_buckets() {
        let rows = LAYER.lines().filter(|line| line.contains("` | histogram |"));
        let histograms: BTreeSet<_> = rows.filter_map(|line| line.split('`').nth(1)).collect();
        let bucketed: BTreeSet<_> = BUCKETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(bucketed, histograms);
    }
}
