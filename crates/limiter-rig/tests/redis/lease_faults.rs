//! Leases whose replies are late or lost, and whose callers are on a busy worker.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Quota};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::Server,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::GIVE_UP_AFTER;
use crate::leases::{LEASE, assert_all_is_counted, calls, leasing, load, own, process, rate};

/// Returns the address of a proxy that holds a reply of a server for some time, twice a second.
async fn late(server: &Server, hold: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, port) = (format!("redis://{}", listener.local_addr().unwrap()), server.port());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let (mut bytes, mut held) = ([0; 65_536], Instant::now());
                while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                    if held.elapsed() > Duration::from_millis(500) {
                        sleep(hold).await;
                        held = Instant::now();
                    }
                    to_client.write_all(&bytes[..length]).await.unwrap();
                }
            });
        }
    });
    url
}

/// A lease ends some time after it was asked for. If it ended that time after the reply, what is spent at its end
/// would add to the checks that others make then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_held_for_most_of_a_lease_leaves_the_rest_of_it() {
    let (server, audit) = (Server::start(), Audit::default());
    // Shorter than those of other tests, so that the connection is made in time.
    let length = Duration::from_millis(100);
    let policy = Policy::gcra("test", Quota::per_second(20_000).with_burst(8_000));
    let client = connect(&late(&server, length * 9 / 10).await).await.unwrap();
    let late = RedisLimiter::builder(policy.clone()).deadline(Duration::from_secs(1));
    let late = late.lease(true).build_on(client).unwrap();
    assert_eq!(late.lease(), Some(length));
    let plain = process(&policy).denial_cache(0).build_on(own(&server).await).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    let rest = async {
        while Instant::now() < end {
            let begun = unix_micros();
            if let Ok(cost) = Cost::new(plain.peek("key").await.unwrap().remaining())
                && plain.check_n("key", cost).await.unwrap().is_admitted()
            {
                audit.add(begun, cost.get());
            }
            // So that there is something to lease in between.
            sleep(length / 2).await;
        }
    };
    // Quiet at times, so that leases are large, and are spent late.
    let bursts = async {
        while Instant::now() < end {
            sleep(length * 3).await;
            let tasks =
                (0..200).map(|_| load(&late, &audit, Instant::now() + length * 2, Duration::ZERO));
            let _ = join_all(tasks).await;
        }
    };
    tokio::join!(rest, bursts);
    let over = audit.over(&policy);
    println!("{} admitted, {over} permits over the bound, {:?}", audit.admitted(), late.counters());
    assert!(late.counters().leases > 0);
    assert!(over <= 0, "{over} permits over the bound");
}

/// A key that is used up is refused by its cached denial, also if it never had a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_used_up_is_not_asked_for_at_each_check() {
    let server = Server::start();
    let policy = Policy::parse("test", "300000/5h by fixed-window").unwrap();
    let limiter = leasing(&server, &policy).await;
    assert!(limiter.lease().is_some());
    let plain = process(&policy).build_on(own(&server).await).unwrap();
    assert!(plain.check_n("key", Cost::of(299_997)).await.unwrap().is_admitted());
    for _ in 0..3 {
        assert!(limiter.check("key").await.unwrap().is_admitted());
        // Too seldom for a lease.
        sleep(LEASE).await;
    }
    let before = calls(&server);
    for _ in 0..1_000 {
        assert!(!limiter.check("key").await.unwrap().is_admitted());
    }
    // A denial is cached for a second.
    let calls = calls(&server) - before;
    assert!(calls < 20, "{calls} calls for 1,000 refusals");
}

/// Permits that are asked for while a limiter is drained or a key is reset reach no caller, and are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_arrive_after_a_reset_or_a_drain_are_counted() {
    let (server, audit, policy) = (Server::start(), Audit::default(), rate(20_000));
    let limiter = leasing(&server, &policy).await;
    let end = Instant::now() + Duration::from_secs(2);
    let tasks = join_all((0..8).map(|_| load(&limiter, &audit, end, Duration::from_micros(100))));
    let resets = async {
        while Instant::now() < end {
            limiter.reset("key").await.unwrap();
            sleep(Duration::from_millis(3)).await;
            limiter.drain(Duration::from_secs(1)).await.unwrap();
        }
    };
    tokio::join!(tasks, resets);
    assert_all_is_counted(&limiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_are_permits_that_are_lost() {
    let (server, audit, policy) = (Server::start(), Audit::default(), rate(5_000));
    let limiters = join_all((0..3).map(|_| leasing(&server, &policy))).await;
    let start = Instant::now();
    let admitted = || limiters.iter().map(|limiter| limiter.counters().admitted);
    // Until each has admitted some between the cuts.
    while admitted().any(|admitted| admitted < 100) || start.elapsed() < Duration::from_secs(2) {
        assert!(start.elapsed() < GIVE_UP_AFTER);
        let end = Instant::now() + Duration::from_millis(30);
        let pause = Duration::from_micros(300);
        let loads = limiters.iter().map(|limiter| load(limiter, &audit, end, pause));
        let cut = async {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        };
        tokio::join!(join_all(loads), cut);
    }
    let (admitted, over) = (admitted().collect::<Vec<_>>(), audit.over(&policy));
    println!("{admitted:?}, {over} permits over the bound");
    assert!(over <= 0, "{over} permits over the bound");
}

/// Requests for leases run on the thread of the connections, so no lease is late because a caller's worker computes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_computes_delays_no_lease() {
    let (server, audit, policy) = (Server::start(), Audit::default(), rate(20_000));
    let limiter = leasing(&server, &policy).await;
    let has_leases = |limiter: &RedisLimiter| limiter.counters().leases > 5;
    let busy = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            while !has_leases(&limiter) {
                // On purpose, without yielding.
                thread::sleep(LEASE);
                tokio::task::yield_now().await;
            }
        }
    });
    let (mut admitted, start) = (0, Instant::now());
    while !has_leases(&limiter) {
        assert!(start.elapsed() < GIVE_UP_AFTER, "{:?}", limiter.counters());
        let (limiter, audit) = (limiter.clone(), audit.clone());
        let end = Instant::now() + LEASE;
        let pause = Duration::from_micros(200);
        let checks = tokio::spawn(async move { load(&limiter, &audit, end, pause).await });
        let (more, refused) = checks.await.unwrap();
        admitted += more;
        assert_eq!(refused, 0);
    }
    busy.await.unwrap();
    println!("{admitted} admitted, {:?}", limiter.counters());
}
