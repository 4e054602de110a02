//! Runs the program and sends it requests over HTTP, in memory and through a real server.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use limiter_test::server::Server;

/// Held by each test while it runs, so that no test slows another one down: through Redis, a request
/// that is not decided within 50 ms is admitted and not counted.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program on a free port. It is killed on drop.
struct Example {
    process: Child,
    address: String,
}

impl Example {
    fn start(redis: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-axum"));
        command.env("PORT", "0").env_remove("REDIS_URL").stdout(Stdio::piped());
        if let Some(url) = redis {
            command.env("REDIS_URL", url);
        }
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.split(['/', ',']).nth(2).unwrap().to_owned();
        assert!(lines.next().unwrap().unwrap().contains(&format!("curl -si http://{address}/")));
        Self { process, address }
    }

    /// Sends one request, and returns the response's status and its header fields.
    fn get(&self) -> (u16, Vec<(String, String)>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let mut lines = response.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap();
        let fields = lines.take_while(|line| !line.is_empty());
        let fields = fields.map(|line| line.split_once(": ").unwrap());
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        (status.parse().unwrap(), fields.collect())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Sends 25 requests, waits for the first refusal's `retry-after`, and sends two more.
fn check_admits_ten_and_one_after_the_wait(example: &Example) {
    let mut wait = None;
    for index in 0..25 {
        let (status, fields) = example.get();
        let field =
            |name| fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str());
        assert_eq!(field("ratelimit-policy"), Some("\"default\";q=10;w=60"), "request {index}");
        let remaining = 9_u64.saturating_sub(index);
        let limit = field("ratelimit").unwrap();
        assert!(limit.starts_with(&format!("\"default\";r={remaining};t=")), "{index}: {limit}");
        if index < 10 {
            assert_eq!((status, field("retry-after")), (200, None), "request {index}");
        } else {
            let seconds: u64 = field("retry-after").unwrap().parse().unwrap();
            assert_eq!(status, 429, "request {index}");
            assert!((1..=6).contains(&seconds), "request {index}: {seconds}");
            assert!(limit.ends_with(&format!(";t={seconds}")), "request {index}: {limit}");
            wait.get_or_insert(seconds);
        }
    }
    thread::sleep(Duration::from_secs(wait.unwrap()));
    assert_eq!(example.get().0, 200);
    assert_eq!(example.get().0, 429);
}

#[test]
fn in_memory_ten_are_admitted_and_one_after_the_wait() {
    let _alone = alone();
    check_admits_ten_and_one_after_the_wait(&Example::start(None));
}

#[test]
fn through_redis_ten_are_admitted_and_one_after_the_wait() {
    let _alone = alone();
    let server = Server::start();
    check_admits_ten_and_one_after_the_wait(&Example::start(Some(&server.url())));
}

#[test]
fn two_processes_on_one_redis_share_one_limit() {
    let _alone = alone();
    let server = Server::start();
    let examples = [0, 1].map(|_| Example::start(Some(&server.url())));
    let passed = (0..20).filter(|index| examples[index % 2].get().0 == 200).count();
    assert_eq!(passed, 10);
}

#[test]
fn without_redis_all_requests_are_admitted() {
    let _alone = alone();
    let example = Example::start(Some("redis://127.0.0.1:1"));
    assert!((0..15).all(|_| example.get().0 == 200));
}

#[test]
fn an_invalid_port_is_quoted() {
    let _alone = alone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-axum"));
    let output = command.env("PORT", "http").output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("PORT is \"http\": use 0 to 65535"), "{error}");
}
