//! A fleet of clients against a server that says only by header fields and 429 how much it admits.
//!
//! The figures depend on the machine, so they are printed, and only what holds on a busy one is
//! asserted:
//!
//! ```console
//! $ cargo xtask test -p limiter-rig --test throttle -- --nocapture
//! ```

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Body, response::IntoResponse, routing::get};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use limiter_client::ThrottleLayer;
use limiter_core::{MemoryLimiter, Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use limiter_tower::{RateLimitLayer, Rule, key::FixedKey};
use tokio::{net::TcpListener, runtime, task::JoinSet, time::sleep};
use tower::{ServiceBuilder, ServiceExt, service_fn};

const PROCESSES: usize = 8;
const TASKS_EACH: usize = 125;

/// What the server admits in a second, one after another. The burst is a tenth.
const LIMITS: [u64; 6] = [1_000, 500, 1_000, 250, 800, 400];
const PHASE: Duration = Duration::from_secs(3);
/// What a phase takes until its figures count.
const LEAD: Duration = Duration::from_secs(1);

/// The most refusals that a change may cause: the median of five.
const MOST_REFUSALS: u64 = 16;

/// Where a process finds its Redis and the server. The test starts itself with it.
const CHILD: &str = "LIMITER_TEST_CHILD_THROTTLE";

#[test]
fn a_fleet_follows_the_limits_that_a_server_announces() {
    if let Ok(addresses) = env::var(CHILD) {
        let (redis, server) = addresses.split_once(' ').unwrap();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(send_for_ever(redis, server));
    }
    let redis = Server::start();
    runtime::Runtime::new().unwrap().block_on(async {
        let counts = Arc::new(Counts::default());
        let limiter = MemoryLimiter::new(policy(LIMITS[0]));
        let rule = Rule::new(limiter, FixedKey::new("all"));
        let layer = RateLimitLayer::all([rule.clone()]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
        let counted = count(app, Arc::clone(&counts));
        tokio::spawn(async move { axum::serve(listener, counted).await });

        let addresses = format!("{} http://{address}/", redis.url());
        let processes: Vec<_> = (0..PROCESSES).map(|_| Process::start(&addresses)).collect();
        let mut refusals = Vec::new();
        for (index, permits) in LIMITS.into_iter().enumerate() {
            let refused = counts.refused();
            rule.set_policy(&policy(permits)).unwrap();
            sleep(LEAD).await;
            let (start, admitted) = (Instant::now(), counts.admitted());
            sleep(PHASE - LEAD).await;
            let seconds = start.elapsed().as_secs_f64();
            let rate = f64::from(u32::try_from(counts.admitted() - admitted).unwrap()) / seconds;
            let used = 100.0 * rate / f64::from(u32::try_from(permits).unwrap());
            let refused = counts.refused() - refused;
            println!("{permits}/s: {used:.0} % used, {refused} refused");
            if index > 0 {
                refusals.push(refused);
                assert!(rate > 0.0, "{permits}/s: nothing is sent");
            }
        }
        let into_pauses: u64 = processes.into_iter().map(Process::stop).sum();
        refusals.sort_unstable();
        let median = refusals[refusals.len() / 2];
        println!("median of refusals after a change: {median}; sent into a pause: {into_pauses}");
        assert_eq!(into_pauses, 0);
        assert!(median <= MOST_REFUSALS, "{refusals:?}");
    });
}

fn policy(permits: u64) -> Policy {
    Policy::gcra("api", Quota::per_second(permits).with_burst(permits / 10))
}

/// How many requests the server has answered.
#[derive(Default)]
struct Counts {
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

fn count(app: Router, counts: Arc<Counts>) -> Router {
    Router::new().fallback_service(service_fn(move |request: Request<Body>| {
        let (app, counts) = (app.clone(), Arc::clone(&counts));
        async move {
            let response = app.oneshot(request).await.into_response();
            let counter = match response.status() {
                StatusCode::OK => &counts.admitted,
                StatusCode::TOO_MANY_REQUESTS => &counts.refused,
                status => panic!("{status}"),
            };
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(response)
        }
    }))
}

/// Sends requests from all tasks of this process until its input ends, and prints how many were sent
/// into a pause.
async fn send_for_ever(redis: &str, url: &str) {
    let client: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build_http();
    // Shared by all processes: a key of this Redis. The server's limit is not known.
    let ceiling = Policy::gcra("outgoing", Quota::per_second(10_000).with_burst(100));
    let connection = limiter_redis::connect(redis).await.unwrap();
    // The machine is busy, and the deadline is not what is tested.
    let limiter = RedisLimiter::builder(ceiling).deadline(Duration::from_secs(10));
    let throttle = ThrottleLayer::with_limiter(limiter.build_on(connection).unwrap()).unwrap();
    let pauses = Arc::new(Pauses::new());
    let sent = Arc::clone(&pauses);
    let client = ServiceBuilder::new().layer(throttle).service(service_fn(move |request| {
        sent.check();
        client.request(request)
    }));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS_EACH {
        let (client, pauses, url) = (client.clone(), Arc::clone(&pauses), url.to_owned());
        tasks.spawn(async move {
            loop {
                let request = Request::get(url.as_str()).body(Body::empty()).unwrap();
                let Ok(response) = client.clone().oneshot(request).await else { return };
                pauses.begin(&response);
                response.into_body().collect().await.unwrap();
            }
        });
    }
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await.unwrap();
    println!("\nsent into a pause: {}", pauses.violations.load(Ordering::Relaxed));
    std::io::stdout().flush().unwrap();
}

/// The latest pause that this process has read, and what was sent into one.
struct Pauses {
    start: Instant,
    /// In nanoseconds from the start.
    until: AtomicU64,
    violations: AtomicU64,
}

impl Pauses {
    fn new() -> Self {
        Self { start: Instant::now(), until: AtomicU64::new(0), violations: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn begin<B>(&self, response: &Response<B>) {
        if let Some(seconds) = response.headers().get("retry-after") {
            let seconds: u64 = seconds.to_str().unwrap().parse().unwrap();
            // A millisecond less, because the layer has read it a moment before.
            let until = self.now() + seconds * 1_000_000_000 - 1_000_000;
            self.until.fetch_max(until, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        if self.now() < self.until.load(Ordering::Relaxed) {
            self.violations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// This test as another process, that sends.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(addresses: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "a_fleet_follows_the_limits_that_a_server_announces"]);
        command.arg("--nocapture").env(CHILD, addresses);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns how many requests were sent into a pause.
    fn stop(mut self) -> u64 {
        drop(self.child.stdin.take());
        let mut lines = (&mut self.output).lines().map(Result::unwrap);
        let line = lines.find_map(|line| Some(line.strip_prefix("sent into a pause: ")?.parse()));
        line.unwrap().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
