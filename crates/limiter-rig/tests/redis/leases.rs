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
    server::Server,
};
use tokio::{task::yield_now, time::sleep};

use crate::{GIVE_UP_AFTER, PATIENT, calls, eventually};

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

/// How many permits of [`slow`] recover in a second.
const RATE: u64 = 100;

/// A policy of which little recovers during a test.
fn slow(permits: u64) -> Policy {
    Policy::gcra("test", Quota::per_second(RATE).with_burst(permits))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_spent_is_returned_while_tasks_check() {
    let (server, audit) = (Server::start(), Audit::default());
    let limiter = leasing(&server, &slow(100_000)).await;
    let start = Instant::now();
    let pause = Duration::from_micros(100);
    loop {
        // Longer than a lease lasts, because it is charged for its end.
        let end = Instant::now() + LEASE * 5;
        let tasks = join_all((0..4).map(|_| load(&limiter, &audit, end, pause)));
        let drains = async {
            while Instant::now() < end {
                sleep(LEASE / 3).await;
                limiter.drain(PATIENT).await.unwrap();
            }
        };
        tokio::join!(tasks, drains);
        let Counters { leased, lease_returned, .. } = limiter.counters();
        if leased > 100 && lease_returned > 100 {
            break;
        }
        assert!(start.elapsed() < GIVE_UP_AFTER, "{:?}", limiter.counters());
    }
    limiter.drain(PATIENT).await.unwrap();
    let counters = limiter.counters();
    let Counters { admitted, lease_permits, leased, lease_unused, lease_returned, .. } = counters;
    println!("{counters:?}");
    assert_eq!(lease_permits, leased + lease_unused + lease_returned);
    assert_eq!(audit.admitted(), admitted, "{counters:?}");
    // The first check of a request that nobody waited for any more counts as well.
    let charged = limiter.peek("key").await.unwrap().used();
    let expected = audit.admitted() + lease_unused;
    let recovered = RATE * (start.elapsed().as_secs() + 1);
    let all = expected.saturating_sub(recovered)..=expected + 5;
    assert!(all.contains(&charged), "{charged} charged of {expected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limiter_that_is_dropped_gives_its_leases_back() {
    let (server, audit) = (Server::start(), Audit::default());
    let limiter = leasing(&server, &slow(100_000)).await;
    let start = Instant::now();
    while limiter.counters().leases == 0 {
        assert!(start.elapsed() < GIVE_UP_AFTER);
        let end = Instant::now() + LEASE;
        let _ = load(&limiter, &audit, end, Duration::from_micros(100)).await;
    }
    let plain = process(&slow(100_000)).build_on(own(&server).await).unwrap();
    // On a busy machine, a lease may have ended before it was spent, and its permits may be back.
    let counters = limiter.counters();
    let Counters { lease_permits, admitted, leased, lease_unused, lease_returned, .. } = counters;
    assert_eq!(admitted, audit.admitted());
    assert!(lease_permits > leased || lease_unused + lease_returned > 0, "{counters:?}");
    drop(limiter);
    let most = audit.admitted() + lease_unused + 5;
    let is_back = async || plain.peek("key").await.unwrap().used() <= most;
    eventually("the permits are back", is_back).await;
}

/// They were in no counter before their lease ended, so a dashboard of `admitted` fell to zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admissions_by_a_lease_are_counted_at_once() {
    let server = Server::start();
    let limiter = leasing(&server, &slow(100_000)).await;
    let mut leased = 0;
    for admitted in 1..=2_000 {
        let decision = match admitted % 2 {
            0 => limiter.check("key").await.unwrap(),
            _ => limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap().decision(),
        };
        assert!(decision.is_admitted());
        leased += u64::from(decision.source() == Source::Lease);
        assert_eq!(limiter.counters().admitted, admitted);
    }
    assert!(leased > 1_000, "{leased}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiers_by_with_policy_have_leases_of_their_own() {
    let server = Server::start();
    let quota = |permits| Quota::new(permits, Duration::from_secs(100)).unwrap();
    let tier = |number: u64| Policy::gcra("test", quota(100_000 + 100 * number));
    let builder = process(&tier(0)).lease(true);
    let limiter = builder.build_on(own(&server).await).unwrap();
    let tiers: Vec<_> = (1..=300).map(tier).collect();
    let checks = 50;
    for (tier, policy) in tiers.iter().enumerate() {
        for number in 0..checks {
            // As a program that looks up the policy for each request.
            let handle = limiter.with_policy(policy).unwrap();
            let decision = handle.check(format!("key-{tier}")).await.unwrap();
            assert!(decision.is_admitted(), "{number} {tier}");
            assert_eq!(decision.burst(), policy.limits()[0].quota().burst());
        }
    }
    let counters = limiter.counters();
    println!("{} calls, {counters:?}", calls(&server));
    assert!(counters.leases > 300);
    assert!(calls(&server) < checks * 300 / 2);
}

async fn lease(limiter: &RedisLimiter) -> u64 {
    let mut admitted = 0;
    while limiter.counters().leases < 8 {
        assert!(limiter.check("key").await.unwrap().is_admitted());
        admitted += 1;
        yield_now().await;
    }
    admitted
}

/// A window forgets nothing before it ends, so permits that are not spent soon are spent later, or are returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_window_can_be_spent_until_it_ends_and_is_returned_whole() {
    let server = Server::start();
    for algorithm in ["fixed-window", "aligned-window", "sliding-counter"] {
        let policy = Policy::parse("test", &format!("300000/5h by {algorithm}")).unwrap();
        let builder = process(&policy).lease(true).prefix(algorithm);
        let limiter = builder.build_on(own(&server).await).unwrap();
        let mut admitted = lease(&limiter).await;
        sleep(LEASE * 2).await;
        assert_eq!(limiter.check("key").await.unwrap().source(), Source::Lease);
        admitted += 1;
        limiter.drain(Duration::from_secs(1)).await.unwrap();
        let counters = limiter.counters();
        let Counters { lease_permits, leased, lease_returned, .. } = counters;
        println!("{algorithm}: {admitted} admitted, {counters:?}");
        assert!(lease_returned > 0 && lease_permits == leased + lease_returned, "{counters:?}");
        // A check that was asked for ahead may have been for nobody.
        let used = limiter.peek("key").await.unwrap().used();
        assert!((admitted..=admitted + 2).contains(&used), "{used} used of {admitted}");
    }
}

/// In a full table, a lease that is hardly spent any more makes place for another one, and is returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_hardly_spent_makes_place_for_another_key() {
    let server = Server::start();
    let policy = Policy::parse("test", "300000/5h by fixed-window").unwrap();
    let builder = process(&policy).lease(true).lease_keys(8);
    let limiter = builder.build_on(own(&server).await).unwrap();
    let length = limiter.lease().unwrap();
    let admitted = lease(&limiter).await;
    for number in 0..8 {
        assert!(limiter.check(format!("{number}")).await.unwrap().is_admitted());
    }
    assert_eq!(limiter.counters().lease_returned, 0);
    sleep(length).await;
    for number in 0..8 {
        assert!(limiter.check(format!("{number}")).await.unwrap().is_admitted());
    }
    limiter.drain(Duration::from_secs(1)).await.unwrap();
    assert!(limiter.counters().lease_returned > 0, "{:?}", limiter.counters());
    let used = limiter.peek("key").await.unwrap().used();
    assert!((admitted..=admitted + 2).contains(&used), "{used} used of {admitted}");
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
