//! The alert and the dashboard under a load.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use limiter_rig::program::Program;
use serde_json::Value;

use crate::{command, load, prometheus::Prometheus};

const DASHBOARD: &str = include_str!("../../dashboard.json");

/// What the names of the metrics of leases begin with.
pub(crate) const LEASES: &str = "ratelimit_lease";

/// The alert has to be pending for a minute.
const FIRES_WITHIN: Duration = Duration::from_secs(300);

#[test]
#[ignore = "takes 90 s; run by `-- --include-ignored`"]
fn a_load_fires_the_alert_and_fills_the_dashboard() {
    let program = Program::start(command().env("LIMIT", "20/s"));
    let prometheus = Prometheus::start(program.address());

    let began = Instant::now();
    let has_fired = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // 50 requests a second against a limit of 20.
            while !has_fired.load(Ordering::Relaxed) && began.elapsed() < FIRES_WITHIN {
                load::send(program.address(), Ipv4Addr::new(192, 0, 2, 1), 10);
                thread::sleep(Duration::from_millis(200));
            }
        });
        let mut state = String::new();
        prometheus.wait_until(FIRES_WITHIN, || {
            let next = prometheus.alert("RateLimitHighUtilization");
            if next != state {
                println!("{:3} s: RateLimitHighUtilization is {next}", began.elapsed().as_secs());
                state = next;
            }
            state == "firing"
        });
        has_fired.store(true, Ordering::Relaxed);
    });

    // Without Redis there are no leases.
    for expression in expressions().iter().filter(|text| !text.contains(LEASES)) {
        show(expression, &prometheus.query(expression));
    }
}

/// Prints what a query of the dashboard returned, which has to be data.
pub(crate) fn show(expression: &str, results: &[(Value, f64)]) {
    println!("query: {expression}");
    results.iter().for_each(|(labels, value)| println!("    {labels} {value}"));
    assert!(!results.is_empty() && results.iter().all(|(_, value)| value.is_finite()));
}

/// Returns the queries of the dashboard's panels, with its variables substituted.
pub(crate) fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap())
        .map(|text| text.replace("$policy", "api").replace("$__rate_interval", "1m"))
        .collect();
    assert!(expressions.len() >= 7);
    assert!(expressions.iter().all(|text| !text.contains('$')), "{expressions:?}");
    expressions
}
