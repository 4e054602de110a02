//! Permits that processes lease: within the limit together, with few calls, and counted to the unit.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Quota, Source};
use limiter_redis::{Builder, ConnectOptions, Connection, Counters, RedisLimiter, connect_with};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::{Sentinels, Server},
};
use tokio::{task::yield_now, time::sleep};

use crate::{GIVE_UP_AFTER, PATIENT};

/// A quarter of the time in which a burst of [`rate`] recovers.
pub(crate) const LEASE: Duration = Duration::from_millis(250);

/// Returns a quota that recovers in one second.
pub(crate) fn rate(permits: u64) -> Policy {
    Policy::gcra("test", Quota::per_second(permits))
}

/// Returns a connection that no other limiter shares, as a process has it.
pub(crate) async fn own(server: &Server) -> Connection {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("process-{}", NUMBER.fetch_add(1, Relaxed));
    connect_with(&server.url(), &ConnectOptions::new().with_name(&name)).await.unwrap()
}

/// Returns a builder of a limiter that represents a process.
pub(crate) fn process(policy: &Policy) -> Builder {
    RedisLimiter::builder(policy.clone()).deadline(PATIENT)
}

pub(crate) async fn leasing(server: &Server, policy: &Policy) -> RedisLimiter {
    process(policy).lease(true).build_on(own(server).await).unwrap()
}

/// How often the server ran a script.
pub(crate) fn calls(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    lines.filter_map(calls).sum()
}

/// Checks in a loop until `end`, and returns how many were admitted and refused. `pause` is between two checks.
pub(crate) async fn load(
    limiter: &RedisLimiter,
    audit: &Audit,
    end: Instant,
    pause: Duration,
) -> (u64, u64) {
    let (mut admitted, mut refused) = (0, 0);
    while Instant::now() < end {
        let begun = unix_micros();
        match limiter.check("key").await {
            Ok(decision) if decision.is_admitted() => {
                audit.add(begun, 1);
                admitted += 1;
            }
            _ => refused += 1,
        }
        if pause.is_zero() {
            yield_now().await;
        } else {
            sleep(pause).await;
        }
    }
    (admitted, refused)
}

/// Shows that each permit of a lease is counted once, after the leases have ended.
pub(crate) async fn assert_all_is_counted(limiter: &RedisLimiter) {
    sleep(2 * LEASE).await;
    limiter.drain(Duration::from_secs(1)).await.unwrap();
    let Counters { lease_permits, leased, lease_unused, lease_returned, .. } = limiter.counters();
    assert_eq!(lease_permits, leased + lease_unused + lease_returned, "{:?}", limiter.counters());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_alone_leases_soon_and_within_the_limit() {
    let (server, audit) = (Server::start(), Audit::default());
    let policy = rate(5_000);
    let limiter = leasing(&server, &policy).await;
    assert_eq!(limiter.lease(), Some(LEASE));
    // More than a burst.
    let is_enough = || audit.admitted() >= 10_000;
    let start = Instant::now();
    while !is_enough() {
        assert!(start.elapsed() < GIVE_UP_AFTER, "{} admitted", audit.admitted());
        let end = Instant::now() + Duration::from_millis(100);
        let _ = load(&limiter, &audit, end, Duration::ZERO).await;
    }
    let (admitted, calls) = (audit.admitted(), calls(&server));
    println!("{admitted} admitted by {calls} calls in {:?}", start.elapsed());
    assert!(audit.over(&policy) <= 0, "{}", audit.over(&policy));
    // The least that a lease has is 16 permits.
    assert!(calls < admitted / 8, "{calls} calls");
    assert_all_is_counted(&limiter).await;
}

/// Processes with and without leases share a key, refund, are dropped and lose replies, and never exceed the
/// limit together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_with_and_without_leases_stay_within_the_limit_together() {
    let (server, audit) = (Server::start(), Audit::default());
    let policy = rate(5_000);
    let end = Instant::now() + Duration::from_secs(3);
    let process = |number: u64| {
        let (server, policy, audit) = (&server, &policy, &audit);
        async move {
            // Half of the fleet has no leases.
            let leases = number % 4 < 2;
            let pause = Duration::from_micros(200 * number);
            while Instant::now() < end {
                let builder = process(policy).lease(leases);
                // Each second process is dropped now and then, and gives its permits back.
                let life =
                    Duration::from_millis(if number.is_multiple_of(2) { 3_000 } else { 150 });
                let limiter = builder.build_on(own(server).await).unwrap();
                let _ = load(&limiter, audit, end.min(Instant::now() + life), pause).await;
            }
        }
    };
    let all_at_once = async {
        // All that there is, by a process that has no leases.
        let plain = self::process(&policy).denial_cache(0).build_on(own(&server).await).unwrap();
        while Instant::now() < end {
            let left = plain.peek("key").await.unwrap().remaining();
            let begun = unix_micros();
            if let Ok(cost) = Cost::new(left)
                && plain.check_n("key", cost).await.unwrap().is_admitted()
            {
                audit.add(begun, left);
            }
            sleep(Duration::from_millis(90)).await;
        }
    };
    tokio::join!(join_all((0..8).map(process)), all_at_once);
    let over = audit.over(&policy);
    println!("{} admitted, {over} permits over the bound", audit.admitted());
    assert!(over <= 0, "{over} permits over the bound");
    assert!(audit.admitted() > 5_000, "{}", audit.admitted());
}

/// A lease is charged for its end, so that a check that another process makes right then finds no more room than
/// there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_spent_at_its_end_counts_for_a_full_check_after_it() {
    let (server, audit) = (Server::start(), Audit::default());
    let policy = rate(10_000);
    let (leases, plain) = (leasing(&server, &policy).await, process(&policy));
    let plain = plain.build_on(own(&server).await).unwrap();
    // Until there is a lease of some size.
    let warm = Instant::now() + Duration::from_millis(300);
    let _ = load(&leases, &audit, warm, Duration::from_micros(500)).await;
    sleep(LEASE * 3 / 4).await;
    while leases.counters().leases < 20 {
        let begun = unix_micros();
        if leases.check("key").await.unwrap().is_admitted() {
            audit.add(begun, 1);
        }
    }
    for _ in 0..2_000 {
        let begun = unix_micros();
        let left = plain.peek("key").await.unwrap().remaining();
        if let Ok(cost) = Cost::new(left)
            && plain.check_n("key", cost).await.unwrap().is_admitted()
        {
            audit.add(begun, left);
        }
        let begun = unix_micros();
        if leases.check("key").await.unwrap().source() == Source::Lease {
            audit.add(begun, 1);
        }
    }
    assert!(audit.over(&policy) <= 0, "{} permits over the bound", audit.over(&policy));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_used_up_is_asked_for_eight_times_a_lease() {
    let (server, audit) = (Server::start(), Audit::default());
    // Leases last for a second.
    let policy = Policy::gcra("test", Quota::new(4_000, Duration::from_secs(4)).unwrap());
    let limiters = join_all((0..4).map(|_| leasing(&server, &policy))).await;
    let pause = Duration::from_millis(1);
    let run = |end: Instant| {
        join_all(limiters.iter().flat_map(|limiter| {
            (0..25).map(|_| load(limiter, &audit, end, pause)).collect::<Vec<_>>()
        }))
    };
    let start = Instant::now();
    // Until the limit is used up for each of them.
    while limiters.iter().any(|limiter| limiter.counters().cached == 0) {
        assert!(start.elapsed() < GIVE_UP_AFTER);
        let _ = run(Instant::now() + Duration::from_millis(500)).await;
    }
    let (start, before) = (Instant::now(), calls(&server));
    let results = run(start + Duration::from_secs(2)).await;
    let (calls, took) = (calls(&server) - before, start.elapsed().as_secs_f64());
    let decisions: u64 = results.iter().map(|(admitted, refused)| admitted + refused).sum();
    println!("{calls} calls for {decisions} decisions in {took} s");
    // Four processes, each every 125 ms, and the leases before they are used up.
    assert!((calls as f64) < 100.0 * took, "{calls} calls in {took} s");
    assert!(calls < decisions / 2, "{calls} calls for {decisions} decisions");
    assert!(audit.over(&policy) <= 0, "{} permits over the bound", audit.over(&policy));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_data_lets_through_the_burst_once_more_at_most() {
    let (server, audit) = (Server::start(), Audit::default());
    let policy = Policy::gcra("test", Quota::per_second(100).with_burst(2_000));
    let limiters = join_all((0..3).map(|_| leasing(&server, &policy))).await;
    let start = Instant::now();
    let uses_up = async |limiter: &RedisLimiter| {
        let start = Instant::now();
        let mut refused = 0;
        while refused == 0 {
            assert!(start.elapsed() < GIVE_UP_AFTER);
            let end = Instant::now() + Duration::from_millis(20);
            refused += load(limiter, &audit, end, Duration::ZERO).await.1;
        }
    };
    join_all(limiters.iter().map(uses_up)).await;
    server.command(&["FLUSHALL"]).unwrap();
    // Until denials are not cached any more.
    sleep(Duration::from_millis(1_200)).await;
    join_all(limiters.iter().map(uses_up)).await;
    let (admitted, recovered) = (audit.admitted(), 100 * (start.elapsed().as_secs() + 1));
    println!("{admitted} admitted, {recovered} recovered");
    // A quarter of the burst is never leased.
    assert!(admitted > 2_000 + recovered, "{admitted}: the server has lost nothing");
    assert!(admitted <= 2 * 2_000 + recovered, "{admitted}");
}

/// Charges that the next primary has not got are lost, and processes keep what they hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_lets_through_the_burst_once_more_at_most() {
    let mut set = Sentinels::start();
    let (audit, policy) = (Audit::default(), rate(2_000));
    let limiters = join_all((0..3).map(async |_| {
        let client = connect_with(&set.url(), &ConnectOptions::new()).await.unwrap();
        let builder = RedisLimiter::builder(policy.clone()).lease(true);
        builder.deadline(Duration::from_secs(1)).build_on(client).unwrap()
    }))
    .await;
    let warm = Instant::now() + Duration::from_secs(1);
    let pause = Duration::from_micros(100);
    let _ = join_all(limiters.iter().map(|limiter| load(limiter, &audit, warm, pause))).await;
    let before = audit.admitted();
    set.server_mut(0).kill();
    // Until leases are granted again by the next primary.
    let loads = limiters.iter().map(async |limiter| {
        let (start, leases) = (Instant::now(), limiter.counters().leases);
        let (mut decided, is_new) = (false, |it: &RedisLimiter| it.counters().leases > leases + 3);
        while !(decided && is_new(limiter)) {
            assert!(start.elapsed() < GIVE_UP_AFTER, "{:?}", limiter.counters());
            let end = Instant::now() + Duration::from_secs(1);
            let _ = load(limiter, &audit, end, pause).await;
            decided = set.primary() == Some(set.server(1).port());
        }
    });
    let _ = join_all(loads).await;
    let (over, after) = (audit.over(&policy), audit.admitted() - before);
    println!("{before} admitted before and {after} after, {over} permits over the bound");
    assert!(over <= 2_000, "{over} permits over the bound");
    assert_eq!(limiters[0].check("other").await.unwrap().source(), Source::State);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_without_leases_are_checked_at_the_server() {
    let server = Server::start();
    for (policy, lease) in [
        ("1000/s burst 10", None),
        ("1000/s burst 63", None),
        ("1000/s burst 100", Some(Duration::from_millis(25))),
        ("1000/min", Some(Duration::from_secs(1))),
        ("900/min", None),
        ("1000/s by leaky-queue depth 10", None),
        ("1000/s by fixed-window", Some(LEASE)),
        ("63/s by fixed-window", None),
        ("1000/s by aligned-window", Some(LEASE)),
        ("1000/s by sliding-counter", Some(LEASE)),
        ("1000/100ms by fixed-window", Some(Duration::from_millis(25))),
        ("1000/19ms by fixed-window", None),
        ("1000/s by sliding-log", None),
        ("1000/s by sub-windows 10 slots", None),
    ] {
        let limiter = leasing(&server, &Policy::parse("test", policy).unwrap()).await;
        assert_eq!(limiter.lease(), lease, "{policy}");
        assert!(limiter.check("key").await.unwrap().is_admitted());
    }
}

/// The wait of a refusal lasts until the store is asked again, so that a retry after it is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_while_the_key_is_scarce_says_when_to_return() {
    let (server, audit) = (Server::start(), Audit::default());
    // So few that a slow machine uses them up.
    let limiter = leasing(&server, &rate(100)).await;
    let mut found = 0;
    let start = Instant::now();
    while found < 10 {
        assert!(start.elapsed() < GIVE_UP_AFTER, "{found} refusals by the cache");
        let begun = unix_micros();
        let decision = limiter.check("key").await.unwrap();
        if decision.is_admitted() {
            audit.add(begun, 1);
        } else if decision.source() == Source::Cache {
            let wait = decision.retry_after().unwrap();
            assert!(wait <= LEASE && decision.remaining() == 0, "{decision:?}");
            found += 1;
            sleep(wait).await;
            let again = limiter.check("key").await.unwrap();
            assert!(again.is_admitted(), "{again:?} after {decision:?}");
        }
    }
}
