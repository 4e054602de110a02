//! What becomes of leased permits: of those that are not spent, that are refunded, and of many keys.

use std::{
    env, fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Quota, Source};
use limiter_redis::Counters;
use limiter_rig::{audit::Audit, server::Server};
use tokio::time::sleep;

use crate::{GIVE_UP_AFTER, PATIENT, eventually};

use crate::leases::{LEASE, calls, leasing, load, own, process, rate};

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
async fn receipts_of_a_lease_are_local_and_those_of_a_check_are_the_servers() {
    let server = Server::start();
    let limiter = leasing(&server, &slow(10_000)).await;
    // The first reservation is a check, which a refund gives back at the server, less what has drained.
    let first = limiter.reserve("cold", Cost::of(1_000), Duration::ZERO).await.unwrap();
    assert_eq!(first.decision().source(), Source::State);
    assert!(limiter.refund(first.into_receipt().unwrap()).await.unwrap() > 0);

    // Until the lease has some permits.
    let mut found = 0;
    for _ in 0..1_000 {
        let before = calls(&server);
        let reserved = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
        let decision = reserved.decision();
        if decision.source() == Source::Lease {
            assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 1);
            let again = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap().decision();
            if calls(&server) == before {
                assert_eq!(again.remaining(), decision.remaining());
                found += 1;
            }
        }
    }
    assert!(found > 100, "{found}");
    // A large cost is charged at the server, and a reset ends the leases.
    let large = limiter.check_n("key", Cost::new(3_000).unwrap()).await.unwrap();
    assert_eq!((large.is_admitted(), large.source()), (true, Source::State));
    limiter.reset("key").await.unwrap();
    assert_eq!(limiter.peek("key").await.unwrap().remaining(), 10_000);
    assert_eq!(limiter.check("key").await.unwrap().source(), Source::State);
}

/// A receipt whose lease was used up and replaced gives its permits back all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_are_held_while_leases_change_are_refunded() {
    let server = Server::start();
    let builder = process(&slow(100_000)).lease(true);
    let limiter = builder.build_on(own(&server).await).unwrap();
    let (mut leased, mut back) = (0, 0);
    // So few that a slow machine has refunded them before their leases end.
    for number in (0..10).map(|round| 1 << round) {
        let mut receipts = Vec::new();
        for _ in 0..number {
            let reserved = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
            leased += u64::from(reserved.decision().source() == Source::Lease);
            receipts.push(reserved.into_receipt().unwrap());
        }
        for receipt in receipts {
            back += limiter.refund(receipt).await.unwrap();
        }
    }
    limiter.drain(PATIENT).await.unwrap();
    let used = limiter.peek("key").await.unwrap().used();
    println!("{leased} leased, {back} came back, {used} used, {:?}", limiter.counters());
    assert!(leased > 500, "{leased}");
    assert!(back > leased / 2, "{back} of {leased} came back");
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

/// `LIMITER_TEST_FRESH_KEYS` sets the number of keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh_keys_end_no_lease_and_take_bounded_memory() {
    const TASKS: u64 = 50;
    let keys = env::var("LIMITER_TEST_FRESH_KEYS").map_or(20_000, |keys| keys.parse().unwrap());
    let (server, audit) = (Server::start(), Audit::default());
    let limiter =
        process(&rate(10_000)).lease(true).lease_keys(64).build_on(own(&server).await).unwrap();
    let is_over = AtomicBool::new(false);
    let flood = async {
        let flood = |task| {
            let limiter = &limiter;
            async move {
                for number in 0..keys / TASKS {
                    let decision = limiter.check(format!("{task}-{number}")).await.unwrap();
                    assert!(decision.is_admitted());
                }
            }
        };
        join_all((0..TASKS).map(flood)).await;
        is_over.store(true, Relaxed);
    };
    let busy = async {
        let (mut refused, mut most) = (0, 0);
        while !is_over.load(Relaxed) {
            let end = Instant::now() + LEASE;
            refused += load(&limiter, &audit, end, Duration::from_micros(200)).await.1;
            most = most.max(limiter.counters().lease_permits);
        }
        (refused, most)
    };
    let before = resident();
    let ((), (refused, leased)) = tokio::join!(flood, busy);
    let (calls, grown) = (calls(&server), resident().saturating_sub(before) >> 10);
    let admitted = audit.admitted();
    println!(
        "{keys} fresh keys, {admitted} of a busy one, {leased} leased, {calls} calls, {grown} KiB"
    );
    // The busy key keeps its lease.
    assert!(leased > admitted / 2, "{:?}", limiter.counters());
    assert_eq!(refused, 0);
}

/// Returns the resident memory of this process in bytes, where the system says so.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).map_or(0, |pages| pages.parse().unwrap_or(0) * 4_096)
}
