//! Runs the program, and watches it as an operator would: by curl and by Prometheus.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod alerts;
mod by_curl;
mod figures;
mod leases;
mod load;
mod million;
mod prometheus;

use std::process::Command;

use limiter_rig::program::{Program, shell};

/// Returns the command that starts the example on a free port.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-observability"));
    for variable in ["LIMIT", "REDIS_URL", "DEADLINE_MS"] {
        command.env_remove(variable);
    }
    command
}

/// Returns how many requests had each of these results, as `/metrics` shows it.
fn requests_total<const N: usize>(program: &Program, results: [&str; N]) -> [u64; N] {
    by_result(program, "ratelimit_requests_total", results)
}

/// Returns the values of a counter for each of these results, as `/metrics` shows them.
fn by_result<const N: usize>(program: &Program, counter: &str, results: [&str; N]) -> [u64; N] {
    let url = format!("http://{}/metrics", program.address());
    let lines = shell(&format!("curl -s {url} | grep ^{counter}"));
    results.map(|result| {
        let label = format!("result=\"{result}\"");
        let line = lines.lines().find(|line| line.contains(&label));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    })
}
