//! A server that replies as a test wants it to: late, with unknown errors, with garbage, or never.

use std::{
    error::Error as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Error, ErrorKind};
use limiter_redis::{
    CallError, ConnectOptions, Fault, RedisLimiter, ScriptCall, ScriptClient, connect_with,
};
use limiter_rig::log::Log;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::{GIVE_UP_AFTER, PATIENT, builder, connect_here, daily, eventually, limiter, patient};

/// What the server replies to a script call, after how long.
#[derive(Clone)]
enum Reply {
    /// An admission, as often as the call has keys.
    Admit,
    /// These bytes.
    Bytes(&'static str),
    /// Nothing.
    Never,
}

/// A server that understands scripts only as far as it counts their keys.
struct Scripted {
    port: u16,
    connections: Arc<AtomicUsize>,
    calls: Arc<AtomicU64>,
    reply: Arc<Mutex<(Duration, Reply)>>,
}

impl Scripted {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            calls: Arc::default(),
            reply: Arc::new(Mutex::new((Duration::ZERO, Reply::Admit))),
        };
        let connections = Arc::clone(&server.connections);
        let (calls, reply) = (Arc::clone(&server.calls), Arc::clone(&server.reply));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                drop(tokio::spawn(serve(stream, Arc::clone(&calls), Arc::clone(&reply))));
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn replies(&self, after: Duration, reply: Reply) {
        *self.reply.lock().unwrap() = (after, reply);
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

async fn serve(
    stream: TcpStream,
    calls: Arc<AtomicU64>,
    reply: Arc<Mutex<(Duration, Reply)>>,
) -> Option<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let command = command(&mut reader).await?;
        if !command[0].starts_with("EVAL") {
            let text =
                if command[0] == "INFO" { "$19\r\nredis_version:7.0.0\r\n" } else { "+OK\r\n" };
            writer.write_all(text.as_bytes()).await.ok()?;
            continue;
        }
        calls.fetch_add(1, Ordering::Relaxed);
        let keys: usize = command[2].parse().ok()?;
        let (after, reply) = reply.lock().unwrap().clone();
        sleep(after).await;
        let text = match reply {
            Reply::Admit if keys == 1 => ":1\r\n".to_owned(),
            Reply::Admit => format!("*{keys}\r\n{}", ":1\r\n".repeat(keys)),
            Reply::Bytes(bytes) => bytes.to_owned(),
            Reply::Never => continue,
        };
        writer.write_all(text.as_bytes()).await.ok()?;
    }
}

/// Reads a command: an array of bulk strings.
pub(crate) async fn command(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<String>> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let mut words = Vec::new();
    for _ in 0..line.trim().strip_prefix('*')?.parse::<usize>().ok()? {
        let mut length = String::new();
        reader.read_line(&mut length).await.ok()?;
        let mut bytes = vec![0; length.trim().strip_prefix('$')?.parse::<usize>().ok()? + 2];
        reader.read_exact(&mut bytes).await.ok()?;
        words.push(String::from_utf8_lossy(&bytes).trim_end().to_owned());
    }
    Some(words)
}

/// Makes checks at the same moment, and returns the errors.
async fn check(limiter: &RedisLimiter, number: usize) -> Vec<Error> {
    let checks: Vec<_> = (0..number).map(|key| limiter.check(key as u64)).collect();
    let results = tokio::spawn(join_all(checks)).await.unwrap();
    results.into_iter().filter_map(Result::err).collect()
}

/// Checks until the server answers.
async fn until_served(limiter: &RedisLimiter) {
    eventually("the server answers", async || check(limiter, 1).await.is_empty()).await;
}

/// Once they counted as silence, and after a second the connection was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_error_replies_keep_the_connection() {
    let server = Scripted::start().await;
    let limiter = patient(&server.url(), 1_000).await;
    assert_eq!(check(&limiter, 1).await.len(), 0);
    server.replies(Duration::ZERO, Reply::Bytes("-EXOTIC words\r\n"));
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1_500) {
        let errors = check(&limiter, 1).await;
        assert_eq!(errors[0].kind(), ErrorKind::Unexpected);
        assert!(errors[0].to_string().ends_with("Redis: EXOTIC words"), "{}", errors[0]);
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.connections(), 1);
    let counters = limiter.counters();
    assert_eq!((counters.breaker_opened, counters.undetermined), (0, 0));
}

/// Once each check reconnected and logged two lines, with the breaker closed.
#[tokio::test]
async fn garbage_opens_the_breaker_and_is_logged_once() {
    let log = Log::start();
    let server = Scripted::start().await;
    let limiter = builder(1_000).deadline(PATIENT);
    let limiter = limiter.build_on(connect_here(&server.url()).await).unwrap();
    assert!(limiter.check("key").await.is_ok());
    server.replies(Duration::ZERO, Reply::Bytes("garbage\r\n"));
    let mut checks = 0;
    while limiter.counters().short_circuited < 300 {
        assert!(limiter.check("key").await.is_err());
        checks += 1;
        assert!(checks < 1_000, "the breaker stays closed");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(limiter.counters().breaker_opened, 1);
    // The library may connect twice for each check until the breaker opened, and for each probe.
    let asked = usize::try_from(checks - limiter.counters().short_circuited).unwrap();
    assert!(server.connections() <= 2 * asked + 3, "{} for {asked}", server.connections());
    assert!(log.lines().len() <= 4, "{:?}", log.lines());
}

/// Once the late reply of an earlier connection replaced the one that was made meanwhile.
#[tokio::test]
async fn a_late_reply_of_an_earlier_connection_keeps_the_later_one() {
    let server = Scripted::start().await;
    let client = connect_here(&server.url()).await;
    let call = ScriptCall::new("return 1", vec!["key".into()]);
    let run = || Box::pin(client.run(&call, Duration::from_secs(5)));
    server.replies(Duration::ZERO, Reply::Bytes("#t\r\n"));
    // Received with the reply to the next call, and read only after the connection was replaced.
    let mut late = run();
    assert!(futures::poll!(&mut late).is_pending());
    assert_eq!(run().await.unwrap_err().fault(), Fault::InvalidReply);
    server.replies(Duration::ZERO, Reply::Admit);
    // Longer than the shortest time between two connections.
    sleep(Duration::from_millis(150)).await;
    assert!(run().await.is_ok());
    assert_eq!(server.connections(), 2);
    assert_eq!(late.await.unwrap_err().fault(), Fault::InvalidReply);
    sleep(Duration::from_millis(150)).await;
    assert!(run().await.is_ok());
    assert_eq!(server.connections(), 2, "the later connection was replaced");
}

/// A connection whose replies all arrived after the deadline was once replaced each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_replies_are_late_is_kept() {
    let server = Scripted::start().await;
    let limiter = builder(1_000).deadline(Duration::from_millis(1));
    let limiter = limiter.connect(&server.url()).await.unwrap();
    until_served(&limiter).await;
    let connections = server.connections();
    server.replies(Duration::from_millis(60), Reply::Admit);
    for _ in 0..30 {
        let before = server.calls();
        let _ = limiter.check("key").await;
        // So that no calls pile up, of which the last would wait for long.
        let is_called = async || server.calls() > before;
        let _ = timeout(Duration::from_millis(200), eventually("it is called", is_called)).await;
    }
    assert!(limiter.counters().undetermined > 0);
    assert_eq!(server.connections(), connections);
}

/// Once a hung connection was never noticed: callers that left dropped the evidence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_noticed_although_all_callers_leave_early() {
    for operation in ["check", "peek", "reserve", "reset", "acquire"] {
        let server = Scripted::start().await;
        let limiter = limiter(&server.url(), 1_000).await;
        until_served(&limiter).await;
        let (connections, calls) = (server.connections(), server.calls());
        let opened = limiter.counters().breaker_opened;
        server.replies(Duration::ZERO, Reply::Never);
        let start = Instant::now();
        while server.connections() == connections {
            let early = Duration::from_millis(5);
            let left = match operation {
                "check" => timeout(early, limiter.check("key")).await.is_err(),
                "peek" => timeout(early, limiter.peek("key")).await.is_err(),
                "reset" => timeout(early, limiter.reset("key")).await.is_err(),
                "acquire" => timeout(early, limiter.acquire("key", Cost::ONE, None)).await.is_err(),
                _ => {
                    let reserve = limiter.reserve("key", Cost::ONE, Duration::ZERO);
                    timeout(early, reserve).await.is_err()
                }
            };
            // Once the breaker is open, there is an error at once.
            if !left {
                sleep(early).await;
            }
            assert!(start.elapsed() < GIVE_UP_AFTER, "{operation}");
        }
        assert_eq!(limiter.counters().breaker_opened - opened, 1, "{operation}");
        // What was not answered is not sent again, and nothing piles up.
        let calls = server.calls() - calls;
        assert!(calls < 60, "{operation}: {calls} calls");
    }
}

/// Once 99 % of the checks failed that were sent together, without a hint.
#[tokio::test]
async fn a_batch_that_is_refused_with_crossslot_is_sent_one_by_one() {
    let log = Log::start();
    let server = limiter_rig::server::Server::start_with(&["--cluster-enabled", "yes"]);
    crate::cluster::serve_all_slots(&server);
    let client = connect_here(&server.url()).await;
    let limiter = RedisLimiter::builder(daily(10)).deadline(Duration::from_secs(5));
    let limiter = limiter.build_on(client).unwrap();
    // Its cluster is not up at once.
    let _ = crate::recover(&limiter).await;
    let before = limiter.counters();
    for _ in 0..3 {
        let checks: Vec<_> = (0..20_u64).map(|key| limiter.check(key)).collect();
        for result in join_all(checks).await {
            assert!(result.unwrap().is_admitted());
        }
    }
    let after = limiter.counters();
    assert_eq!(after.undetermined, before.undetermined);
    assert_eq!(after.breaker_opened, before.breaker_opened);
    let lines = log.lines();
    let hints = lines.iter().filter(|line| line.contains("use redis-cluster://"));
    assert_eq!(hints.count(), 1, "{lines:?}");
}

/// The client library's decoder is recursive, and has no bound.
#[tokio::test]
async fn a_reply_that_is_nested_deeply_is_an_error_and_not_the_end_of_the_process() {
    let server = Scripted::start().await;
    // No breaker opens on a slow machine.
    let options = ConnectOptions::new().with_silence(Duration::from_secs(10));
    let connection = connect_with(&server.url(), &options).await.unwrap();
    let limiter = builder(1_000).deadline(PATIENT).build_on(connection).unwrap();
    assert!(limiter.check("key").await.is_ok());
    for depth in [20, 10_000] {
        let nested = format!("{}:1\r\n", "*1\r\n".repeat(depth));
        server.replies(Duration::ZERO, Reply::Bytes(nested.leak()));
        for error in [limiter.reset("key").await.err(), limiter.check("key").await.err()] {
            let error = error.unwrap();
            let cause = error.source().unwrap().downcast_ref::<Arc<CallError>>().unwrap();
            assert_eq!(cause.fault(), Fault::InvalidReply, "{error}");
        }
    }
}
