//! Runs the program and sends it requests by curl, in memory and through a real server.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use limiter_test::{
    program::{self, Program},
    server::Server,
};

/// Held by each test while it runs, so that no test slows another one down: through Redis, a request
/// that is not decided within 50 ms is admitted and not counted.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-axum"));
    command.env_remove("REDIS_URL");
    command
}

fn in_memory() -> Program {
    Program::start(&mut command())
}

fn through_redis(url: &str) -> Program {
    Program::start(command().env("REDIS_URL", url))
}

/// Sends 15 requests, waits for the first refusal's `retry-after`, and sends two more.
fn check_admits_ten_and_one_after_the_wait(program: &Program) {
    let mut wait = None;
    for index in 0..15 {
        let response = program.curl(&[], "/");
        let limit = response.field("ratelimit").unwrap();
        let remaining = 9_u64.saturating_sub(index);
        assert_eq!(response.field("ratelimit-policy"), Some("\"default\";q=10;w=60"));
        assert!(limit.starts_with(&format!("\"default\";r={remaining};t=")), "{index}: {limit}");
        if index < 10 {
            assert_eq!((response.status, &*response.body), (200, "hello\n"), "request {index}");
            assert_eq!(response.field("retry-after"), None, "request {index}");
        } else {
            let seconds: u64 = response.field("retry-after").unwrap().parse().unwrap();
            assert_eq!(response.status, 429, "request {index}");
            assert!((1..=6).contains(&seconds), "request {index}: {seconds}");
            assert!(limit.ends_with(&format!(";t={seconds}")), "request {index}: {limit}");
            wait.get_or_insert(seconds);
        }
    }
    thread::sleep(Duration::from_secs(wait.unwrap()));
    assert_eq!(program.curl(&[], "/").status, 200);
    assert_eq!(program.curl(&[], "/").status, 429);
}

#[test]
fn in_memory_ten_are_admitted_and_one_after_the_wait() {
    let _alone = alone();
    check_admits_ten_and_one_after_the_wait(&in_memory());
}

#[test]
fn through_redis_ten_are_admitted_and_one_after_the_wait() {
    let _alone = alone();
    let server = Server::start();
    check_admits_ten_and_one_after_the_wait(&through_redis(&server.url()));
}

#[test]
fn the_printed_command_shows_the_first_refusal() {
    let _alone = alone();
    let program = in_memory();
    let output = program::shell(program.line("curl -si").trim());
    let count = |part| output.lines().filter(|line| line.starts_with(part)).count();
    assert_eq!((count("HTTP/1.1 200"), count("HTTP/1.1 429")), (10, 2));
    assert_eq!((count("ratelimit: "), count("retry-after: ")), (12, 2));
}

#[test]
fn two_processes_on_one_redis_share_one_limit() {
    let _alone = alone();
    let server = Server::start();
    let programs = [0, 1].map(|_| through_redis(&server.url()));
    let passed = (0..20).filter(|index| programs[index % 2].curl(&[], "/").status == 200).count();
    assert_eq!(passed, 10);
}

#[test]
fn without_redis_all_requests_are_admitted() {
    let _alone = alone();
    let program = through_redis("redis://127.0.0.1:1");
    assert!((0..15).all(|_| program.curl(&[], "/").status == 200));
}

#[test]
fn an_invalid_port_is_quoted() {
    let _alone = alone();
    let output = command().env("PORT", "http").output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("PORT is \"http\": use 0 to 65535"), "{error}");
}
