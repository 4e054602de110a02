//! Every operation by the server's own clock, and one program for memory and Redis.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::join_all};
use limiter_core::{
    Algorithm, Cost, Error, MemoryLimiter, Policy, Quota, Receipt, Source, WaitingLimiter,
};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::{self, Server};

use crate::patient as daily_limiter;
const LONG: Duration = Duration::from_secs(10);

async fn patient(url: &str, policy: Policy) -> RedisLimiter {
    RedisLimiter::builder(policy).deadline(LONG).connect(url).await.unwrap()
}

/// One every 50 ms, without a burst.
fn paced_out(name: &str) -> Policy {
    let quota = Quota::per_second(20).with_burst(1);
    Policy::leaky_queue(name, 100, quota)
}

/// Returns the results of a program that does not know where the states are.
async fn program(limiter: &dyn WaitingLimiter) -> Result<Vec<String>, Error> {
    let key = &"program".into();
    let mut seen = Vec::new();
    let mut see = |what: &dyn std::fmt::Debug| seen.push(format!("{what:?}"));
    see(&limiter.peek(key).await?.remaining());
    see(&limiter.check_n(key, Cost::of(10)).await?.remaining());
    let reserved = limiter.reserve(key, Cost::of(10), Duration::ZERO).await?;
    see(&reserved.delay());
    if let Some(receipt) = reserved.into_receipt() {
        see(&limiter.refund(receipt.keep(4)).await?);
    }
    see(&limiter.peek(key).await?.used());
    let premium = Policy::fixed_window("premium", Quota::per_day(100));
    let premium = limiter.waiting_with_policy(&premium)?;
    see(&premium.check_n(key, Cost::of(80)).await?.remaining());
    see(&limiter.check(key).await?.is_admitted());
    limiter.reset(key).await?;
    see(&premium.peek(key).await?.remaining());
    see(&limiter.acquire(key, Cost::of(20), Some(Duration::ZERO)).await?.is_admitted());
    let reloaded = limiter.with_policy(&policy(40))?;
    see(&reloaded.peek(key).await?.remaining());
    see(&reloaded.policy().limits()[0].quota().permits());
    let other = Policy::gcra("program", Quota::per_day(20));
    see(&limiter.with_policy(&other).err().map(|error| error.kind()));
    Ok(seen)
}

/// By GCRA, memory and Redis differ where the quota changes.
fn policy(permits: u64) -> Policy {
    Policy::fixed_window("program", Quota::per_day(permits))
}

#[tokio::test]
async fn a_program_runs_alike_in_memory_and_on_redis() {
    let memory = program(&MemoryLimiter::new(policy(20))).await.unwrap();
    let server = Server::start();
    let redis = program(&patient(&server.url(), policy(20)).await).await.unwrap();
    assert_eq!(memory, redis);
    let expected = [
        "20",
        "10",
        "Some(0ns)",
        "6",
        "14",
        "6",
        "false",
        "100",
        "true",
        "20",
        "40",
        "Some(InvalidSetting)",
    ];
    assert_eq!(memory, expected);
}

#[tokio::test]
async fn waiters_are_admitted_one_by_one_in_their_order() {
    let server = Server::start();
    let limiter = patient(&server.url(), paced_out("queue")).await;
    let key = "key";
    let start = Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        // Each has its place before the next one asks.
        let before = limiter.peek(key).await.unwrap().reset_after();
        waiting.push(tokio::spawn({
            let limiter = limiter.clone();
            async move {
                let acquired = limiter.acquire("key", Cost::ONE, None).await.unwrap();
                assert_eq!(acquired.delay(), Some(Duration::ZERO));
                start.elapsed()
            }
        }));
        while limiter.peek(key).await.unwrap().reset_after() <= before {}
    }
    let mut times = Vec::new();
    for task in waiting {
        times.push(task.await.unwrap());
    }
    assert!(times.is_sorted(), "{times:?}");
    // Four intervals after the first, which began after the start.
    assert!(times[4] >= Duration::from_millis(199), "{times:?}");
}

#[tokio::test]
async fn who_does_not_wait_any_longer_gives_the_place_back() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_minute(1));
    let limiter = patient(&server.url(), policy).await;
    // Dropped before the server has answered, or while it waits for its turn.
    for (key, patience) in [("unheard", 50), ("asleep", 50_000)] {
        assert!(limiter.check(key).await.unwrap().is_admitted());
        let used_up = limiter.peek(key).await.unwrap().reset_after();
        let acquire = limiter.acquire(key, Cost::ONE, None);
        let dropped = tokio::time::timeout(Duration::from_micros(patience), acquire).await;
        assert!(dropped.is_err());
        let start = Instant::now();
        while limiter.peek(key).await.unwrap().reset_after() > used_up {
            assert!(start.elapsed() < LONG, "the place was not given back");
        }
    }
}

#[tokio::test]
async fn a_place_that_nobody_took_is_given_back() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_minute(1).with_burst(2));
    let limiter = patient(&server.url(), policy).await;
    for (key, is_elsewhere) in [("key", false), ("other", true)] {
        let mut acquire = Box::pin(limiter.acquire(key, Cost::of(2), None));
        assert!((&mut acquire).now_or_never().is_none());
        let start = Instant::now();
        while limiter.peek(key).await.unwrap().used() == 0 {
            assert!(start.elapsed() < LONG, "nothing was taken");
        }
        // The answer was there before that of the last poll, and nobody has read it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        if is_elsewhere {
            // Where there is no runtime.
            std::thread::spawn(|| drop(acquire)).join().unwrap();
        } else {
            drop(acquire);
        }
        while limiter.peek(key).await.unwrap().used() > 1 {
            assert!(start.elapsed() < LONG, "the place was not given back");
        }
    }
}

#[tokio::test]
async fn who_can_not_have_it_in_time_is_refused_at_once() {
    let server = Server::start();
    let policy = Policy::gcra("test", Quota::per_day(1));
    let limiter = patient(&server.url(), policy).await;
    let key = "key";
    for (cost, within, admitted) in [
        (1, Some(Duration::ZERO), true),
        (1, Some(Duration::from_secs(3_600)), false),
        (2, None, false),
    ] {
        let cost = Cost::new(cost).unwrap();
        // Who waits for it waits for an hour, or for ever.
        let acquired =
            tokio::time::timeout(crate::GIVE_UP_AFTER, limiter.acquire(key, cost, within));
        assert_eq!(acquired.await.unwrap().unwrap().decision().is_admitted(), admitted);
    }
}

#[tokio::test]
async fn a_known_refusal_asks_no_server() {
    let server = Server::start();
    let limiter = daily_limiter(&server.url(), 3).await;
    let key = "key";
    let check = async |cost: u64| limiter.check_n(key, Cost::new(cost).unwrap()).await.unwrap();
    assert!(check(2).await.is_admitted());
    let refused = check(2).await;
    assert_eq!((refused.is_admitted(), refused.source()), (false, Source::State));
    let asked = || calls(&server);
    let before = asked();
    for _ in 0..100 {
        let again = check(2).await;
        assert_eq!((again.is_admitted(), again.source()), (false, Source::Cache));
        assert!(again.retry_after() <= refused.retry_after());
    }
    // A larger cost is refused too, and the refusal of what can never fit says so.
    assert_eq!(check(3).await.source(), Source::Cache);
    assert_eq!(check(4).await.retry_after(), None);
    assert_eq!(asked(), before);
    // A smaller one may fit.
    assert!(check(1).await.is_admitted());
    assert!(asked() > before);
    let counted = limiter.counters();
    assert_eq!((counted.admitted, counted.refused, counted.cached), (2, 1, 102));
}

#[tokio::test]
async fn a_reset_and_a_refund_end_what_was_remembered() {
    let server = Server::start();
    let limiter = daily_limiter(&server.url(), 2).await;
    let key = "key";
    let two = Cost::of(2);
    let check = async || limiter.check(key).await.unwrap().is_admitted();
    assert!(check().await && check().await && !check().await && !check().await);
    limiter.reset(key).await.unwrap();
    assert!(check().await && check().await && !check().await);
    limiter.reset(key).await.unwrap();
    let reserved = limiter.reserve(key, two, Duration::ZERO).await.unwrap();
    assert!(!check().await);
    assert_eq!(limiter.refund(reserved.into_receipt().unwrap()).await.unwrap(), 2);
    assert!(check().await && check().await);
}

#[tokio::test]
async fn receipts_of_other_limiters_give_nothing_back() {
    let server = Server::start();
    let url = server.url();
    let (one, other) = (daily_limiter(&url, 5).await, daily_limiter(&url, 5).await);
    let key = "key";
    let reserve = async || {
        let reserved = one.reserve(key, Cost::of(2), Duration::ZERO).await.unwrap();
        reserved.into_receipt().unwrap()
    };
    assert_eq!(other.refund(reserve().await).await.unwrap(), 0);
    assert_eq!(one.refund(Receipt::new("a stranger's", 1)).await.unwrap(), 0);
    assert_eq!(one.peek(key).await.unwrap().used(), 2);
    let handle = one.with_policy(&Policy::gcra("handle", Quota::per_day(7))).unwrap();
    assert_eq!(handle.refund(reserve().await).await.unwrap(), 2);
    assert_eq!(one.peek(key).await.unwrap().used(), 2);
    let from_before_reset = reserve().await;
    one.reset(key).await.unwrap();
    assert_eq!(one.refund(from_before_reset).await.unwrap(), 0);
}

#[tokio::test]
async fn no_key_of_any_algorithm_lives_without_an_expiry() {
    let server = Server::start();
    let texts = ["7/min burst 3", "10/min by sub-windows 6 slots loose paced"].map(str::to_owned);
    let of_each = Algorithm::one_of_each().map(|algorithm| format!("10/min by {algorithm}"));
    let client = connect(&server.url()).await.unwrap();
    let mut policies: Vec<Policy> = (0..)
        .zip(of_each.chain(texts))
        .map(|(index, text)| Policy::parse(&format!("p{index}"), &text).unwrap())
        .collect();
    let limits = [policies[0].clone(), Policy::parse("hour", "100/h by sliding-log").unwrap()];
    policies.push(Policy::all_of("several", limits).unwrap());
    for policy in &policies {
        let limiter = RedisLimiter::builder(policy.clone());
        let limiter = limiter.deadline(LONG).build_on(client.clone()).unwrap();
        let reserve = async |key: &str, cost, within| {
            limiter.reserve(key, Cost::new(cost).unwrap(), within).await.unwrap()
        };
        let taken = reserve("used", 1, Duration::ZERO).await;
        drop(reserve("refunded", 1, Duration::ZERO).await);
        let kept = reserve("refunded", 1, Duration::ZERO).await.into_receipt();
        drop(reserve("promised", 1, Duration::from_secs(600)).await);
        drop(reserve("promised", 1, Duration::from_secs(600)).await);
        drop(reserve("reset", 1, Duration::ZERO).await);
        if let Some(receipt) = kept {
            limiter.refund(receipt).await.unwrap();
        }
        limiter.reset("reset").await.unwrap();
        assert!(taken.decision().is_admitted(), "{policy:?}");
    }
    let keys = server.command(&["KEYS", "*"]).unwrap();
    let keys: Vec<_> = keys.lines().filter(|line| line.starts_with("limiter:")).collect();
    assert!(keys.len() >= 3 * policies.len(), "{keys:?}");
    let lives = keys.iter().map(|key| server.command(&["PTTL", key]).unwrap());
    let lives: Vec<String> = lives.collect();
    // An hour of the log, and the ten minutes that were waited for.
    for (key, life) in keys.iter().zip(&lives) {
        let life: i64 = life.trim_start_matches(':').parse().unwrap();
        assert!(life == -2 || (0..3 * 3_600_000).contains(&life), "{key} lives {life} ms");
    }
}

#[tokio::test]
async fn several_tasks_share_what_one_limiter_gives_by_every_algorithm() {
    let url = server::shared_url();
    for (index, algorithm) in Algorithm::one_of_each().enumerate() {
        let (name, text) =
            (format!("shared-{}-{index}", std::process::id()), format!("50/day by {algorithm}"));
        let limiter = Arc::new(patient(&url, Policy::parse(&name, &text).unwrap()).await);
        let checks = (0..100).map(|_| limiter.check("key"));
        let admitted = join_all(checks).await;
        let admitted = admitted.iter().filter(|result| result.as_ref().unwrap().is_admitted());
        assert_eq!(admitted.count(), 50, "{text}");
    }
}

/// Returns how many scripts the server was asked to run.
fn calls(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let calls = stats.lines().filter_map(|line| {
        let rest = line.strip_prefix("cmdstat_evalsha:calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}
