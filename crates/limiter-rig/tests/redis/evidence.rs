//! One event is one failure: what opens the circuit breaker, what does not, and how soon it closes.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_redis::RedisLimiter;
use limiter_rig::server::{Cluster, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    task::yield_now,
    time::sleep,
};

use crate::{builder, faults::recover, limiter, timely};

const DEADLINE: Duration = Duration::from_millis(50);

/// Checks in `tasks` endless loops until `end` is over, and returns how many checks were decided and how
/// many were not.
async fn load(limiter: &RedisLimiter, tasks: usize, end: impl Future<Output = ()>) -> (u64, u64) {
    let (over, decided, undecided) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let checks = join_all((0..tasks).map(async |task| {
        while !over.load(Relaxed) {
            match limiter.check(format!("key-{task}")).await {
                Ok(_) => _ = decided.fetch_add(1, Relaxed),
                Err(_) => {
                    undecided.fetch_add(1, Relaxed);
                    // An open breaker refuses without a wait.
                    yield_now().await;
                }
            }
        }
    }));
    let end = async {
        end.await;
        over.store(true, Relaxed);
    };
    tokio::join!(checks, end);
    (decided.into_inner(), undecided.into_inner())
}

/// Returns how long it took until the breaker opened, at most two seconds.
async fn opens(limiter: &RedisLimiter) -> Duration {
    let (start, before) = (Instant::now(), limiter.counters().breaker_opened);
    while limiter.counters().breaker_opened == before && start.elapsed() < Duration::from_secs(2) {
        sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stalls_within_the_deadline_opens_no_breaker() {
    timely(async || {
        let cluster = Cluster::start();
        let limiter = limiter(&cluster.url(), 1_000_000).await;
        let _ = recover(&limiter).await;
        let stalls = async {
            for _ in 0..5 {
                sleep(Duration::from_millis(100)).await;
                cluster.node(0).pause();
                sleep(DEADLINE * 3 / 5).await;
                cluster.node(0).resume();
            }
        };
        let (decided, undecided) = load(&limiter, 16, stalls).await;
        println!("{decided} decided, {undecided} undecided");
        assert_eq!(limiter.counters().breaker_opened, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_fails_the_calls_under_way_and_no_others() {
    timely(async || {
        let server = Server::start();
        // Longer than the machine may be busy with other tests.
        let limiter = builder(1_000_000).deadline(Duration::from_secs(1));
        loses_what_is_under_way(&server, &limiter.connect(&server.url()).await.unwrap()).await;
    })
    .await;
}

/// Shows that the calls that are under way when a server closes all connections are lost, and no others.
pub(crate) async fn loses_what_is_under_way(server: &Server, limiter: &RedisLimiter) {
    let _ = recover(limiter).await;
    for tasks in [16, 500] {
        let before = limiter.counters();
        let kill = async {
            sleep(Duration::from_millis(200)).await;
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            sleep(Duration::from_millis(200)).await;
        };
        let (decided, undecided) = load(limiter, tasks, kill).await;
        println!("{tasks} tasks: {decided} decided, {undecided} undecided");
        let after = limiter.counters();
        assert_eq!(after.breaker_opened, before.breaker_opened);
        assert!(undecided <= tasks as u64, "{undecided} of {tasks} tasks");
    }
}

/// Each reply takes more than half of the deadline, and some arrive too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_at_full_load_opens_no_breaker() {
    timely(async || {
        let server = Server::start();
        let limiter = builder(1_000_000).deadline(4 * DEADLINE);
        let limiter = limiter.connect(&server.url()).await.unwrap();
        let _ = recover(&limiter).await;
        let slow = async {
            for _ in 0..15 {
                server.pause();
                sleep(2 * DEADLINE + DEADLINE / 2).await;
                server.resume();
                sleep(DEADLINE / 5).await;
            }
        };
        let (decided, undecided) = load(&limiter, 500, slow).await;
        println!("{decided} decided, {undecided} undecided");
        assert_eq!(limiter.counters().breaker_opened, 0);
    })
    .await;
}

/// Forgets the scripts and closes all connections of servers every 50 ms, while ten tasks check.
async fn storm(url: &str, servers: &[&Server], least_percent: u64) {
    let limiter = limiter(url, 1_000_000).await;
    let _ = recover(&limiter).await;
    let storm = async {
        for _ in 0..200 {
            sleep(Duration::from_millis(50)).await;
            for server in servers {
                server.command(&["SCRIPT", "FLUSH"]).unwrap();
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            }
        }
    };
    let (decided, undecided) = load(&limiter, 10, storm).await;
    let counters = limiter.counters();
    println!("{decided} decided, {undecided} undecided, {counters:?}");
    let percent = decided * 100 / (decided + undecided);
    assert!(percent >= least_percent, "{percent} % of the checks were decided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_checks_are_served_in_a_storm_against_a_server() {
    timely(async || {
        let server = Server::start();
        storm(&server.url(), &[&server], 90).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_checks_are_served_in_a_storm_against_a_cluster() {
    timely(async || {
        let cluster = Cluster::start();
        storm(&cluster.url(), &[cluster.node(0), cluster.node(1), cluster.node(2)], 80).await;
    })
    .await;
}

/// Shows that the breaker opens after about five deadlines, that most checks don't ask while it is open, and
/// that it closes soon.
pub(crate) async fn protects(
    limiter: &RedisLimiter,
    tasks: usize,
    fail: impl Future<Output = ()>,
    end: impl Future<Output = ()>,
) {
    let before = limiter.counters();
    let outage = async {
        sleep(Duration::from_millis(100)).await;
        fail.await;
        let opened = opens(limiter).await;
        let open = limiter.counters();
        sleep(Duration::from_millis(300)).await;
        let later = limiter.counters();
        end.await;
        let (ended, closed) = (Instant::now(), before.breaker_closed + 1);
        while limiter.counters().breaker_closed < closed && ended.elapsed() < Duration::from_secs(5)
        {
            sleep(Duration::from_millis(1)).await;
        }
        let closed = ended.elapsed();
        println!("{tasks} tasks: opened after {opened:?}, closed after {closed:?}");
        // Five deadlines and 300 ms on a machine that is not busy with other tests.
        assert!(opened < 10 * DEADLINE, "opened after {opened:?}");
        let short_circuited = later.short_circuited - open.short_circuited;
        assert!(short_circuited > 100, "only {short_circuited} checks were decided without a call");
        assert!(closed < Duration::from_millis(900), "closed after {closed:?}");
    };
    let _ = load(limiter, tasks, outage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_left_alone_within_five_deadlines() {
    timely(async || {
        let server = Server::start();
        let limiter = limiter(&server.url(), 1_000_000).await;
        for tasks in [1, 500] {
            let _ = recover(&limiter).await;
            protects(&limiter, tasks, async { server.pause() }, async { server.resume() }).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_left_alone_within_five_deadlines() {
    timely(async || {
        let server = std::cell::RefCell::new(Server::start());
        let url = server.borrow().url();
        let limiter = limiter(&url, 1_000_000).await;
        for tasks in [1, 500] {
            let _ = recover(&limiter).await;
            let kill = async { server.borrow_mut().kill() };
            protects(&limiter, tasks, kill, async { server.borrow_mut().restart() }).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cuts_every_connection_is_left_alone_within_five_deadlines() {
    timely(async || {
        let server = Server::start();
        let scissors = Scissors::before(server.port()).await;
        let limiter = limiter(&scissors.url, 1_000_000).await;
        for tasks in [1, 500] {
            let _ = recover(&limiter).await;
            let [cut, end] = [true, false].map(|cuts| {
                let scissors = &scissors;
                async move { scissors.cuts.store(cuts, Relaxed) }
            });
            protects(&limiter, tasks, cut, end).await;
        }
    })
    .await;
}

/// A proxy before a server, which closes each connection on which a script is called.
struct Scissors {
    url: String,
    cuts: Arc<AtomicBool>,
}

impl Scissors {
    async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let cuts = Arc::new(AtomicBool::new(false));
        let of_task = Arc::clone(&cuts);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let cuts = Arc::clone(&of_task);
                tokio::spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    let requests = async {
                        let mut bytes = vec![0; 65_536];
                        while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                            let bytes = &bytes[..length];
                            let is_call = bytes.windows(4).any(|word| word == b"EVAL");
                            if is_call && cuts.load(Relaxed)
                                || to_server.write_all(bytes).await.is_err()
                            {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        () = requests => {}
                        _ = copy(&mut from_server, &mut to_client) => {}
                    }
                });
            }
        });
        Self { url, cuts }
    }
}
