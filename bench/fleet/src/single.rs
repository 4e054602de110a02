//! How long a check of a lease takes.

use std::{thread, time::Instant};

use anyhow::Result;
use limiter_core::{Policy, Quota};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::Server;
use tokio::runtime::Builder;

/// Checks in a turn.
const CHECKS: u64 = 1_000_000;

/// Returns the nanoseconds of a check by one thread and by two at the same time, on one key and on one each.
pub(crate) fn report(server: &Server, rounds: usize) -> Result<String> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // A lease of a second, and enough permits for all checks.
    let quota =
        Quota::new(4_000_000, std::time::Duration::from_secs(1))?.try_with_burst(40_000_000)?;
    let limiter = runtime.block_on(async {
        let client = connect(&server.url()).await?;
        let builder = RedisLimiter::builder(Policy::gcra("single", quota));
        builder.lease(true).build_on(client)
    })?;
    let cases: [(&str, &[&str]); 3] = [
        ("one thread", &["tenant-1"]),
        ("two threads, a key each", &["tenant-1", "tenant-2"]),
        ("two threads, one key", &["tenant-1", "tenant-1"]),
    ];
    let mut text = "\n## A check of a lease\n\nIn ns for each thread: the median, and all rounds. Checks that wait for a \
                    lease are in it.\n\n| threads | ns |\n| --- | --- |\n"
        .to_owned();
    for (name, keys) in cases {
        let mut figures = Vec::new();
        for _ in 0..rounds.max(3) {
            let turns: Vec<_> = keys
                .iter()
                .map(|key| {
                    let (limiter, key, handle) =
                        (limiter.clone(), (*key).to_owned(), runtime.handle().clone());
                    thread::spawn(move || handle.block_on(turn(&limiter, &key)))
                })
                .collect();
            for turn in turns {
                figures.push(turn.join().unwrap_or(f64::NAN));
            }
        }
        text.push_str(&format!("| {name} | {} |\n", super::middle(figures, 0)));
    }
    Ok(text)
}

async fn turn(limiter: &RedisLimiter, key: &str) -> f64 {
    // Until there are leases of some size.
    for _ in 0..100_000 {
        drop(limiter.check(key).await);
    }
    let start = Instant::now();
    for _ in 0..CHECKS {
        drop(limiter.check(key).await);
    }
    start.elapsed().as_nanos() as f64 / CHECKS as f64
}
