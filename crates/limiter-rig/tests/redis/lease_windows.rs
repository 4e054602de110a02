//! Leases of windows, which end with the window in which they were granted.

use std::time::{Duration, Instant};

use futures::future::join_all;
use limiter_core::{Cost, Policy, Source};
use limiter_redis::{Counters, RedisLimiter};
use limiter_rig::{
    audit::{Audit, unix_micros},
    server::Server,
};
use tokio::{task::yield_now, time::sleep};

use crate::leases::{LEASE, calls, leasing, own, process};

/// So few that a slow machine uses them up.
const LIMIT: u64 = 2_000;

/// Makes a check, and notes its permits if it is admitted.
async fn check(audit: &Audit, limiter: &RedisLimiter, cost: Cost) {
    let begun = unix_micros();
    if limiter.check_n("key", cost).await.unwrap().is_admitted() {
        audit.add(begun, cost.get());
    }
}

/// Four processes that lease try ten times the limit, and one without leases takes all that it finds.
async fn saturated(policy: &Policy) -> (Audit, u64, u64) {
    let (server, audit) = (Server::start(), Audit::default());
    let limiters = join_all((0..4).map(|_| leasing(&server, policy))).await;
    let end = Instant::now() + Duration::from_millis(3_500);
    let loads = limiters.iter().flat_map(|limiter| (0..10).map(move |_| limiter)).map(|limiter| {
        let audit = &audit;
        async move {
            let mut decisions = 0;
            while Instant::now() < end {
                for _ in 0..5 {
                    check(audit, limiter, Cost::ONE).await;
                    decisions += 1;
                }
                sleep(Duration::from_millis(1)).await;
            }
            decisions
        }
    });
    let plain = process(policy).denial_cache(0).build_on(own(&server).await).unwrap();
    let rest = async {
        let mut calls = 0;
        while Instant::now() < end {
            if let Ok(cost) = Cost::new(plain.peek("key").await.unwrap().remaining() / 4) {
                check(&audit, &plain, cost).await;
                calls += 1;
            }
            sleep(LEASE * 2).await;
            calls += 1;
        }
        calls
    };
    let (loads, by_rest) = tokio::join!(join_all(loads), rest);
    (audit, loads.iter().sum(), calls(&server) - by_rest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_aligned_window_admits_its_limit_to_all_processes_together() {
    const SECOND: u64 = 1_000_000;
    let policy = Policy::parse("test", &format!("{LIMIT}/s by aligned-window")).unwrap();
    let (audit, decisions, calls) = saturated(&policy).await;
    let (span, mut most) = (audit.span(), 0);
    for window in span.start / SECOND + 1..span.end / SECOND {
        let admitted = audit.within(&(window * SECOND..(window + 1) * SECOND));
        println!("{admitted} in a window");
        assert!(admitted <= LIMIT, "{admitted}");
        most = most.max(admitted);
    }
    // In one of them at least, the machine was not too busy to try more.
    assert!(most > LIMIT * 9 / 10, "{most}");
    println!("{calls} calls for {decisions} decisions");
    // Windows open for all at the same moment, and each process asks once.
    assert!(calls < decisions / 100, "{calls} calls for {decisions} decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_windows_stay_within_their_bounds_at_their_edges() {
    for (algorithm, bound) in [("fixed-window", 2 * LIMIT), ("sliding-counter", 2 * LIMIT - 1)] {
        let policy = Policy::parse("test", &format!("{LIMIT}/s by {algorithm}")).unwrap();
        let (audit, decisions, calls) = saturated(&policy).await;
        let starts = audit.span().step_by(1_000);
        let most = starts.map(|from| audit.within(&(from..from + 1_000_000))).max().unwrap();
        let admitted = audit.admitted();
        println!("{algorithm}: {admitted}, {most} in a second, {calls} calls for {decisions}");
        assert!(most <= bound, "{most}");
        // Of three windows and a half, on a machine that is not too busy.
        assert!(admitted > LIMIT * 2, "{admitted}");
        assert!(calls < decisions / 50, "{calls} calls for {decisions} decisions");
    }
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
