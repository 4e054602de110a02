//! The thread and the sockets that connections share.
//!
//! Each test counts those of its process, so it runs in a process of its own.

use std::{
    env, fs,
    future::Future,
    process::{self, Command},
    sync::{Arc, Barrier, Mutex},
    task::{Context, Wake},
    thread,
    time::Duration,
};

use futures::executor::block_on;
use limiter_core::{Cost, ErrorKind, Policy};
use limiter_redis::{RedisLimiter, ScriptClient, connect};
use limiter_rig::{
    program::Again,
    server::{self, Server},
};
use tokio::{runtime::Builder, sync::oneshot};

use crate::{PATIENT, builder, daily, eventually, key_of, patient};

/// Set in the process of a single test.
const ALONE: &str = "LIMITER_TEST_ALONE";

/// Runs a test in a process of its own.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if env::var_os(ALONE).is_some() {
        return Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }
    let mut command = Again::command(&format!("threads::{name}"));
    let output = command.env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Returns how many threads of connections this process has.
fn threads() -> usize {
    threads_named("limiter-redis")
}

fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end meanwhile.
    let names = tasks.filter_map(|task| fs::read(task.unwrap().path().join("comm")).ok());
    names.filter(|found| found.trim_ascii_end() == name.as_bytes()).count()
}

/// Returns how many TCP sockets this process has. With its feature `signal`, Tokio has others.
fn sockets() -> usize {
    let tcp = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let inodes = tcp.lines().filter_map(|line| line.split_whitespace().nth(9));
    let inodes: Vec<_> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    links.filter(|link| inodes.iter().any(|inode| link.as_os_str() == &**inode)).count()
}

/// Returns the memory of this process in KiB.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches([':', '\t', ' ']).strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Returns the clients that the server has, except the one that asks, which has no name.
fn clients(server: &Server) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]).unwrap();
    let asks = |line: &str| line.contains(" name= ") && line.contains("cmd=client");
    let lines = list.lines().filter(|line| line.contains("id=") && !asks(line));
    let mut ids: Vec<_> =
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    ids.sort();
    ids
}

#[test]
fn twenty_limiters_share_a_thread_and_a_connection() {
    alone("twenty_limiters_share_a_thread_and_a_connection", async {
        let server = Server::start();
        let url = server.url();
        let connection = connect(&url).await.unwrap();
        let limiter = || builder(100).deadline(PATIENT).build_on(connection.clone()).unwrap();
        let limiters: Vec<_> = (0..20).map(|_| limiter()).collect();
        for limiter in &limiters {
            assert!(limiter.check("key").await.unwrap().is_admitted());
        }
        assert_eq!((threads(), clients(&server).len()), (1, 1));
        // Another connection has a thread of its own.
        let other = connect(&url).await.unwrap();
        assert_eq!((threads(), clients(&server).len()), (2, 2));
        drop((connection, limiters, other));
        eventually("no client stays", async || clients(&server).is_empty()).await;
        eventually("no thread stays", async || threads() == 0).await;
    });
}

#[test]
fn a_thousand_limiters_leave_nothing() {
    alone("a_thousand_limiters_leave_nothing", async {
        let url = server::shared_url();
        let build = async |number| {
            for _ in 0..number {
                drop(patient(&url, 100).await);
            }
        };
        build(200).await;
        eventually("as before", async || (threads(), sockets()) == (0, 0)).await;
        let before = memory("VmRSS");
        build(1_000).await;
        eventually("as before", async || (threads(), sockets()) == (0, 0)).await;
        let more = memory("VmRSS").saturating_sub(before);
        assert!(more < 4 * 1_024, "{more} KiB");
    });
}

#[test]
fn a_limiter_can_be_dropped_while_another_connects() {
    alone("a_limiter_can_be_dropped_while_another_connects", async {
        let url = server::shared_url();
        let mut limiter = patient(&url, 10_000).await;
        for _ in 0..1_000 {
            let start = Barrier::new(2);
            let next = thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    drop(limiter);
                });
                start.wait();
                block_on(patient(&url, 10_000))
            });
            assert!(next.check("drop").await.unwrap().is_admitted());
            limiter = next;
        }
        eventually("one thread stays", async || (threads(), sockets()) == (1, 1)).await;
    });
}

#[test]
fn a_limiter_can_be_dropped_on_the_thread_of_its_connection() {
    alone("a_limiter_can_be_dropped_on_the_thread_of_its_connection", async {
        let server = Server::start();
        for observes in [false, true] {
            let client = connect(&server.url()).await.unwrap();
            let last: Arc<Mutex<Option<RedisLimiter>>> = Arc::default();
            let builder = RedisLimiter::builder(daily(1)).denial_cache(0);
            let builder = builder.deadline(Duration::from_secs(5));
            let limiter = if observes {
                let last = Arc::clone(&last);
                builder.observer(move |_| drop(last.lock().unwrap().take()))
            } else {
                builder
            };
            let limiter = limiter.build_on(client.clone()).unwrap();
            assert!(limiter.check(u64::from(observes)).await.unwrap().is_admitted());
            // An error, which is observed.
            let key = key_of(&limiter, "foreign");
            server.command(&["RPUSH", &key, "text"]).unwrap();
            let check = limiter.check("foreign");
            *last.lock().unwrap() = Some(limiter);
            assert!(check.await.is_err());
            let task = Arc::clone(&last);
            let (go, gone) = oneshot::channel::<()>();
            let (ended, end) = oneshot::channel::<()>();
            client.spawn(async move {
                let _ = gone.await;
                drop(task.lock().unwrap().take());
                drop(ended);
            });
            drop((client, go));
            let _ = end.await;
            eventually("no thread stays", async || (threads(), clients(&server).len()) == (0, 0))
                .await;
        }
    });
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as the test wants it");
    }
}

/// Sets how much more memory this process can map, or removes the limit.
fn limit_memory(more: Option<u64>) {
    let limit =
        more.map_or("unlimited".to_owned(), |more| (memory("VmSize") * 1_024 + more).to_string());
    let (id, limit) = (process::id().to_string(), format!("--as={limit}:"));
    let set = Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap();
    assert!(set.success());
}

/// Less than the stack of a thread of connections.
const TOO_LITTLE: u64 = 64 << 20;

/// A caller's waker panics on the thread that has the timers of all callers.
#[test]
fn timers_go_on_after_a_waker_that_panics() {
    alone("timers_go_on_after_a_waker_that_panics", async {
        let server = Server::start();
        let policy = Policy::parse("test", "1/s").unwrap();
        let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(5));
        let limiter = limiter.connect(&server.url()).await.unwrap();
        assert!(limiter.check("key").await.unwrap().is_admitted());
        let mut wait = Box::pin(limiter.acquire("key", Cost::ONE, None));
        // The permit is charged, and what remains is to wait for it.
        while limiter.counters().admitted < 2 {
            assert!(futures::poll!(&mut wait).is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(futures::poll!(&mut wait).is_pending());
        let waker = Arc::new(Panics).into();
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server.pause();
        // By the same timers as that wait.
        let check = tokio::time::timeout(crate::GIVE_UP_AFTER, limiter.check("another"));
        assert_eq!(check.await.unwrap().unwrap_err().kind(), ErrorKind::Undetermined);
    });
}

/// Once it was a panic, because the runtime of the thread was dropped within the caller's.
#[test]
fn a_thread_that_does_not_start_is_an_error() {
    alone("a_thread_that_does_not_start_is_an_error", async {
        limit_memory(Some(TOO_LITTLE));
        let error = connect(&server::shared_url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}
