//! Runs the program and sends it requests by curl, in memory and through a real server.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use limiter_rig::{
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

/// Asserts that as many requests were admitted as the quota allows since `start`: 10, and one every 6
/// seconds, which a busy machine may need for a few requests.
#[track_caller]
fn assert_ten(admitted: usize, start: Instant) {
    let returned = usize::try_from(start.elapsed().as_secs() / 6).unwrap();
    assert!((10..=10 + returned).contains(&admitted), "{admitted}, {returned} returned");
}

/// Sends requests until one is refused, waits for its `retry-after`, and sends more.
fn check_admits_ten_and_one_after_the_wait(program: &Program) {
    let start = Instant::now();
    let mut admitted = 0;
    let refused = loop {
        let response = program.curl(&[], "/");
        assert_eq!(response.field("ratelimit-policy"), Some("\"default\";q=10;w=60"));
        if response.status == 429 {
            break response;
        }
        assert_eq!((response.status, &*response.body), (200, "hello\n"), "request {admitted}");
        assert_eq!(response.field("retry-after"), None, "request {admitted}");
        admitted += 1;
        assert_ten(admitted.max(10), start);
    };
    assert_ten(admitted, start);
    let seconds = refused.field("retry-after").unwrap();
    let limit = format!("\"default\";r=0;t={seconds}");
    assert_eq!(refused.field("ratelimit"), Some(&*limit));
    let seconds = seconds.parse().unwrap();
    assert!((1..=6).contains(&seconds), "{seconds}");
    thread::sleep(Duration::from_secs(seconds));
    assert_eq!(program.curl(&[], "/").status, 200);
    assert!((0..20).any(|_| program.curl(&[], "/").status == 429));
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
    let start = Instant::now();
    let output = program::shell(program.line("curl -si").trim());
    let count = |part| output.lines().filter(|line| line.starts_with(part)).count();
    assert_ten(count("HTTP/1.1 200"), start);
    assert_eq!(count("HTTP/1.1 200") + count("HTTP/1.1 429"), 11);
    assert_eq!((count("ratelimit: "), count("retry-after: ")), (11, count("HTTP/1.1 429")));
}

#[test]
fn two_processes_on_one_redis_share_one_limit() {
    let _alone = alone();
    let server = Server::start();
    let programs = [0, 1].map(|_| through_redis(&server.url()));
    let start = Instant::now();
    let admitted = (0..20).filter(|index| programs[index % 2].curl(&[], "/").status == 200).count();
    assert_ten(admitted, start);
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
    assert!(error.contains("PORT is \"http\""), "{error}");
}
