//! The metrics of leases, and the panels that show them.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use limiter_rig::{program::Program, server::Server};
use serde_json::Value;

use crate::{
    by_result, command,
    figures::{LEASES, expressions, show},
    load::{self, Responses},
    prometheus::Prometheus,
    requests_total,
};

/// The first is the sum of the others, once all leases have ended.
const RESULTS: [&str; 4] = ["granted", "spent", "unused", "returned"];

const LOAD: Duration = Duration::from_secs(5);

/// How long figures may take to arrive, on a machine that is busy with other tests.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn each_leased_permit_is_counted_once_and_the_panels_show_them() {
    let redis = Server::start();
    let program = Program::start(command().envs([
        ("REDIS_URL", redis.url().as_str()),
        ("LIMIT", "20_000/s"),
        // A busy machine is not an outage.
        ("DEADLINE_MS", "20000"),
    ]));
    let prometheus = Prometheus::start(program.address());
    // A rate needs a sample from before the load.
    prometheus
        .wait_until(ARRIVES_WITHIN, || !prometheus.query("ratelimit_leases_total").is_empty());

    let (end, mut responses) = (Instant::now() + LOAD, Responses::default());
    while Instant::now() < end {
        responses = responses + load::send(program.address(), Ipv4Addr::new(192, 0, 2, 1), 100);
        thread::sleep(Duration::from_millis(20));
    }
    println!("{responses:?}");
    let Responses { admitted, refused } = responses;
    assert_eq!(requests_total(&program, ["allowed", "denied"]), [admitted, refused]);

    // The last lease ends 250 ms after the load, and is counted within a second.
    let mut permits = [0; 4];
    prometheus.wait_until(ARRIVES_WITHIN, || {
        permits = by_result(&program, "ratelimit_lease_permits_total", RESULTS);
        let [granted, ended @ ..] = permits;
        granted == ended.iter().sum::<u64>()
    });
    let [granted, spent, unused, returned] = permits;
    println!("{granted} granted = {spent} spent + {unused} unused + {returned} returned");
    // Each permit that was spent admitted a request. Checks of the server admitted the others.
    assert!((admitted / 2..=admitted).contains(&spent), "{spent} spent of {admitted} admitted");

    for (result, permits) in RESULTS.iter().zip(permits) {
        let query = format!("ratelimit_lease_permits_total{{result=\"{result}\"}}");
        let expected = permits.to_string();
        let is_it =
            |results: &[(Value, f64)]| results.iter().any(|it| it.1.to_string() == expected);
        prometheus.wait_until(ARRIVES_WITHIN, || is_it(&prometheus.query(&query)));
    }
    let panels: Vec<_> = expressions().into_iter().filter(|text| text.contains(LEASES)).collect();
    assert_eq!(panels.len(), 2, "{panels:?}");
    for expression in panels {
        let mut results = Vec::new();
        prometheus.wait_until(ARRIVES_WITHIN, || {
            results = prometheus.query(&expression);
            results.iter().any(|(_, value)| *value > 0.0)
        });
        show(&expression, &results);
    }
}
