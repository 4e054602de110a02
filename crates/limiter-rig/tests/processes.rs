//! Two server processes on one Redis, and a crowd of clients: the limit is one limit, exactly.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that fails fails its test")]

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use axum::{Router, routing::get};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use limiter_tower::{RateLimitLayer, Rule, key::FixedKey, rule::OnStoreFailure};
use tokio::{net::TcpListener, runtime::Runtime};

const LIMIT: usize = 100;
const PROCESSES: usize = 2;
const CLIENTS_EACH: usize = 8;
const REQUESTS_EACH: usize = 50;

/// Where a process that is to serve finds its Redis. The test starts itself with it.
const REDIS_OF_CHILD: &str = "LIMITER_TEST_CHILD_REDIS";
const ANNOUNCEMENT: &str = "listening on ";

#[test]
fn two_processes_together_admit_exactly_the_limit() {
    if let Ok(redis) = env::var(REDIS_OF_CHILD) {
        return Runtime::new().unwrap().block_on(serve(&redis));
    }
    let redis = Server::start();
    let processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start(&redis.url())).collect();
    let admitted: usize = thread::scope(|scope| {
        let clients: Vec<_> = processes
            .iter()
            .flat_map(|process| (0..CLIENTS_EACH).map(|_| scope.spawn(|| process.hammer())))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(admitted, LIMIT);
}

/// Serves until it is killed.
async fn serve(redis: &str) {
    let policy = Policy::gcra("shared", Quota::per_day(LIMIT as u64));
    let client = limiter_redis::connect(redis).await.unwrap();
    // The machine is busy, and the deadline is not what is tested.
    let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(10));
    let limiter = limiter.build_on(client).unwrap();
    let rule = Rule::new(limiter, FixedKey::new("everyone")).on_store_failure(OnStoreFailure::Deny);
    let layer = RateLimitLayer::all([rule]);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // On a line of its own: the test harness leaves its own line open.
    println!("\n{ANNOUNCEMENT}{}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

/// This test as another process, that serves. Ends with its value.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(redis: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "two_processes_together_admit_exactly_the_limit", "--nocapture"]);
        command.env(REDIS_OF_CHILD, redis).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| line.unwrap().strip_prefix(ANNOUNCEMENT).map(str::to_owned))
            .expect("the other process says where it listens");
        Self { child, address }
    }

    /// Returns how many requests of one client were admitted.
    fn hammer(&self) -> usize {
        (0..REQUESTS_EACH).filter(|_| self.is_admitted()).count()
    }

    fn is_admitted(&self) -> bool {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let refused = answer.starts_with("HTTP/1.1 429 ");
        let admitted = answer.starts_with("HTTP/1.1 200 ");
        assert!(admitted || refused, "{answer}");
        admitted
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
