//! Whether the clients and Prometheus count the same.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use limiter_rig::program::Program;

use crate::{
    command,
    load::{self, Responses},
    prometheus::Prometheus,
};

const CLIENTS: u8 = 4;
const EACH: u64 = 250_000;

/// How long the last figures may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

#[test]
#[ignore = "takes 5 min; run by `-- --include-ignored`"]
fn a_million_requests_are_counted_alike_by_clients_and_prometheus() {
    let limit = ("LIMIT", "100_000/d by fixed-window");
    let program = Program::start(command().envs([limit]));
    let prometheus = Prometheus::start(program.address());

    let began = Instant::now();
    let responses = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let address = program.address();
                scope.spawn(move || load::send(address, Ipv4Addr::new(192, 0, 2, client), EACH))
            })
            .collect();
        let responses = clients.into_iter().map(|client| client.join().unwrap());
        responses.fold(Responses::default(), |sum, next| sum + next)
    });
    println!("{} requests in {:.1?}: {responses:?}", u64::from(CLIENTS) * EACH, began.elapsed());
    assert_eq!(responses, Responses { admitted: 400_000, refused: 600_000 });

    // Of each client, the first 90,000 found at most 0.9 of the limit used.
    let low = u64::from(CLIENTS) * 90_000;
    for (query, expected) in [
        ("ratelimit_requests_total{result=\"allowed\"}", responses.admitted),
        ("ratelimit_requests_total{result=\"denied\"}", responses.refused),
        ("sum(ratelimit_requests_total)", u64::from(CLIENTS) * EACH),
        ("ratelimit_window_utilization_count", u64::from(CLIENTS) * EACH),
        ("ratelimit_window_utilization_bucket{le=\"0.9\"}", low),
        ("ratelimit_near_limit_total", u64::from(CLIENTS) * EACH - low),
    ] {
        let mut value = None;
        prometheus.wait_until(ARRIVES_WITHIN, || {
            value = prometheus.query(query).first().map(|(_, value)| value.to_string());
            value == Some(expected.to_string())
        });
        println!("Prometheus: {query} {}", value.unwrap());
    }
}
