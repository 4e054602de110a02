//! Runs fleets on a real server, with and without leases.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::process::{Command, Output};

use limiter_rig::server::Server;

fn run(url: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-fleet"));
    let output = command.env("REDIS_URL", url).env("SECONDS", "2").args(options).output().unwrap();
    println!("$ cargo run --release -p example-fleet -- {}", options.join(" "));
    print!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a fleet that stays within the limit, and returns how many calls an admission it made.
fn calls_an_admission(options: &[&str]) -> f64 {
    let output = run(&Server::start().url(), options);
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit(": ").next().unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// How many checks there are depends on the machine. On a quiet one, it is 0.01 calls and 1.2.
#[test]
fn leases_save_most_calls() {
    let with = calls_an_admission(&[]);
    assert!(with > 0.0 && with < 0.5, "{with}");
    let without = calls_an_admission(&["--no-leases"]);
    assert!(without > 0.5, "{without}");
}

#[test]
fn without_a_server_and_with_unknown_options_it_fails() {
    assert!(!run("redis://127.0.0.1:1", &[]).status.success());
    let output = run("redis://127.0.0.1:1", &["--lease"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("unknown arguments [\"--lease\"]; use none, or --no-leases"), "{error}");
}
