//! One event is one failure: what opens the circuit breaker, what does not, and how soon it closes.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use futures::future::join_all;
use limiter_redis::{Counters, RedisLimiter};
use limiter_rig::server::{Cluster, Server};
use tokio::task::yield_now;

use crate::{PATIENT, builder, eventually, recover};

/// Where the deadline is short, so that a test can wait for several to pass.
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

/// Returns a limiter with a short deadline.
async fn limiter(url: &str) -> RedisLimiter {
    builder(1_000_000).deadline(DEADLINE).connect(url).await.unwrap()
}

/// Returns how many checks have asked the store and got no decision.
fn failed(counters: &Counters) -> u64 {
    counters.unavailable + counters.undetermined + counters.unexpected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_fails_the_calls_under_way_and_no_others() {
    let server = Server::start();
    let limiter = builder(1_000_000).deadline(PATIENT);
    loses_what_is_under_way(&server, &limiter.connect(&server.url()).await.unwrap()).await;
}

/// Shows that the calls that are under way when a server closes all connections are lost, and no others.
pub(crate) async fn loses_what_is_under_way(server: &Server, limiter: &RedisLimiter) {
    let _ = recover(limiter).await;
    for tasks in [16, 500] {
        let before = limiter.counters();
        let kill = async {
            served(limiter, 2 * tasks as u64).await;
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            served(limiter, 2 * tasks as u64).await;
        };
        let (decided, undecided) = load(limiter, tasks, kill).await;
        let after = limiter.counters();
        let lost = after.undetermined - before.undetermined;
        println!("{tasks} tasks: {decided} decided, {undecided} undecided, {lost} lost");
        assert!(lost <= tasks as u64, "{lost} of {tasks} tasks");
        assert_eq!(after.breaker_opened, before.breaker_opened);
    }
}

/// Forgets the scripts and closes all connections of servers again and again, while ten tasks check: as soon as they are
/// served again.
async fn storm(url: &str, servers: &[&Server]) {
    const TASKS: usize = 10;
    const KILLS: u64 = 200;
    let limiter = builder(1_000_000).deadline(PATIENT).connect(url).await.unwrap();
    let _ = recover(&limiter).await;
    let storm = async {
        for _ in 0..KILLS {
            served(&limiter, 10 * TASKS as u64).await;
            for server in servers {
                server.command(&["SCRIPT", "FLUSH"]).unwrap();
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            }
        }
    };
    let (decided, undecided) = load(&limiter, TASKS, storm).await;
    let counters = limiter.counters();
    println!("{decided} decided, {undecided} undecided, {counters:?}");
    // Each task loses one check at most when its connection is closed, and none when the scripts are.
    assert!(counters.undetermined <= KILLS * TASKS as u64, "{counters:?}");
    assert_eq!(counters.unexpected, 0);
}

/// Waits until so many more checks were admitted.
async fn served(limiter: &RedisLimiter, checks: u64) {
    let before = limiter.counters().admitted;
    eventually("checks are served", async || limiter.counters().admitted >= before + checks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_lost_than_is_under_way_in_a_storm_against_a_server() {
    let server = Server::start();
    storm(&server.url(), &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_lost_than_is_under_way_in_a_storm_against_a_cluster() {
    let cluster = Cluster::start();
    storm(&cluster.url(), &[cluster.node(0), cluster.node(1), cluster.node(2)]).await;
}

/// Shows that the breaker opens, that hardly any check asks while it is open, and that it closes again. Returns how many
/// checks failed until it opened.
pub(crate) async fn protects(
    limiter: &RedisLimiter,
    tasks: usize,
    fail: impl Future<Output = ()>,
    end: impl Future<Output = ()>,
) -> u64 {
    let mut first = 0;
    let outage = async {
        served(limiter, 2 * tasks as u64).await;
        fail.await;
        let before = limiter.counters();
        let has_opened = async || limiter.counters().breaker_opened > before.breaker_opened;
        eventually("the breaker opens", has_opened).await;
        let open = limiter.counters();
        let not_asked = || limiter.counters().short_circuited - open.short_circuited;
        eventually("checks don't ask", async || not_asked() >= 1_000).await;
        let later = limiter.counters();
        end.await;
        let has_closed = async || limiter.counters().breaker_closed > before.breaker_closed;
        eventually("the breaker closes", has_closed).await;
        let probes = failed(&later) - failed(&open);
        first = failed(&open) - failed(&before);
        println!("{tasks} tasks: open after {first} failures, {probes} until 1,000 did not ask");
        // Those that were under way, and probes.
        assert!(probes < 100 + tasks as u64, "{probes} asked while it was open");
    };
    let _ = load(limiter, tasks, outage).await;
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_left_alone() {
    let server = std::cell::RefCell::new(Server::start());
    let url = server.borrow().url();
    let limiter = limiter(&url).await;
    for tasks in [1, 500] {
        let _ = recover(&limiter).await;
        let kill = async { server.borrow_mut().kill() };
        protects(&limiter, tasks, kill, async { server.borrow_mut().restart() }).await;
    }
}
