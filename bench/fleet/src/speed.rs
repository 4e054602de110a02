//! How fast a fleet is: with leases, without, and by a peer.

use std::time::Duration;

use anyhow::{Context, Result};
use limiter_rig::server::Server;

use crate::{PROCESSES, Turn, begins, child::Job, middle, spread};

/// What a fleet is to do.
struct Scenario {
    name: &'static str,
    contender: &'static str,
    /// Permits of a key a second, and its burst.
    rate: u64,
    /// How many times the limit the processes try together. With 0, as fast as they can.
    load: f64,
}

const KEYS: usize = 4;

const SCENARIOS: [Scenario; 6] = [
    scenario("leases, as fast as it goes", "leases", 2_000_000, 0.0),
    scenario("each check a call, as fast as it goes", "calls", 2_000_000, 0.0),
    scenario("tower-rate-limit-fred 2.1, as fast as it goes", "peer", 2_000_000, 0.0),
    scenario("leases, 0.6 of the limit", "leases", 2_000_000, 0.6),
    scenario("leases, twice the limit", "leases", 200_000, 2.0),
    scenario("leases, 10 times the limit", "leases", 50_000, 10.0),
];

const fn scenario(name: &'static str, contender: &'static str, rate: u64, load: f64) -> Scenario {
    Scenario { name, contender, rate, load }
}

/// Runs each scenario in each round, and returns the report.
pub(crate) fn report(server: &Server, rounds: usize, seconds: u64) -> Result<String> {
    let mut turns: Vec<Vec<Turn>> = SCENARIOS.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (scenario, turns) in SCENARIOS.iter().zip(&mut turns) {
            eprintln!("round {round} of {rounds}: {}", scenario.name);
            server.command(&["FLUSHALL"])?;
            turns.push(job(server, scenario, seconds)?.fleet(server)?);
        }
    }
    let mut text = format!(
        "\n## Fleet\n\n{PROCESSES} processes with one connection each, {KEYS} keys with a burst of one second, leases of \
         250 ms, for {seconds} s: the median of {rounds} rounds, and all of them. A call is an `EVALSHA`, which may be \
         a batch. Of the limit: what was admitted, of the burst and the rate of all keys over that time.\n\n\
         | processes | admitted, 1,000/s | calls an admission | calls a decision | of the limit |\n\
         | --- | --- | --- | --- | --- |\n"
    );
    for (scenario, turns) in SCENARIOS.iter().zip(&turns) {
        let limit = |turn: &Turn| (scenario.rate * KEYS as u64) as f64 * (1.0 + turn.seconds);
        let cells = [
            spread(turns, |turn| turn.admitted / turn.seconds / 1e3, 0),
            spread(turns, |turn| turn.calls / turn.admitted, 5),
            spread(turns, |turn| turn.calls / turn.decisions, 5),
            spread(turns, |turn| turn.admitted / limit(turn), 3),
        ];
        text.push_str(&format!("| {} | {} |\n", scenario.name, cells.join(" | ")));
    }
    let leases = turns.first().context("no turns")?;
    for (contender, turns) in SCENARIOS.iter().zip(&turns).skip(1).take(2) {
        let pairs = leases.iter().zip(turns);
        let ratios: Vec<f64> =
            pairs.map(|(a, b)| (a.admitted / a.seconds) / (b.decisions / b.seconds)).collect();
        text.push_str(&format!(
            "\nAdmissions by leases to decisions by {}: {}.\n",
            contender.name,
            middle(ratios, 1)
        ));
    }
    Ok(text)
}

fn job(server: &Server, scenario: &Scenario, seconds: u64) -> Result<Job> {
    Ok(Job {
        contender: scenario.contender.to_owned(),
        url: server.url(),
        policy: format!("{}/s", scenario.rate),
        deadline: Duration::from_secs(1),
        keys: KEYS,
        pattern: "key by key".to_owned(),
        checks: scenario.load * (scenario.rate * KEYS as u64) as f64 / PROCESSES as f64,
        begins: begins()?,
        seconds: seconds as f64,
        log: None,
    })
}
