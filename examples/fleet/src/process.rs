//! A process of the fleet: what a service does that leases permits.

use std::{
    env,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use limiter_core::{Decision, Error, Policy, Quota, Source};
use limiter_redis::{Counters, RedisLimiter};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    options::Options,
    totals::{Report, Totals},
};

/// How many tasks check at the same time. Without leases, checks of the same moment share a call.
const TASKS: u32 = 2;

const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Checks `key` for as long as the options say, and gives the leases back.
#[tokio::main(worker_threads = 2)]
pub(crate) async fn run(key: &str, options: &Options) -> Result<()> {
    let limiter = limiter(options).await?;
    // So that it is connected before the time counts.
    let _ = limiter.peek(key).await?;
    report(Report::Ready)?;
    let read = spawn_blocking(|| io::stdin().read_line(&mut String::new())).await??;
    ensure!(read > 0, "the program that started this process has ended");

    let counts = Arc::new(Counts::default());
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (limiter, key, counts) = (limiter.clone(), key.to_owned(), Arc::clone(&counts));
        tasks.spawn(check(limiter, key, counts, pace(options)?, end));
    }
    let mut ticks = interval(REPORT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() + REPORT_EVERY < end {
        ticks.tick().await;
        report(Report::Checking(counts.totals(&limiter)))?;
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    report(Report::Checked(counts.totals(&limiter)))?;

    // What is not given back counts as used until it has recovered.
    if let Err(error) = limiter.drain(Duration::from_secs(1)).await {
        eprintln!("{error}");
    }
    report(Report::Drained(counts.totals(&limiter)))
}

async fn limiter(options: &Options) -> Result<RedisLimiter> {
    let url = env::var("REDIS_URL").context("REDIS_URL is not set")?;
    let policy = Policy::gcra("fleet", Quota::new(options.rate, Duration::from_secs(1))?);
    // A busy machine is not an outage.
    let builder = RedisLimiter::builder(policy);
    Ok(builder.deadline(Duration::from_secs(1)).lease(options.leases).connect(&url).await?)
}

/// Returns the time from one check of a task to the next.
fn pace(options: &Options) -> Result<Duration> {
    let checks = options.rate as f64 * options.load / f64::from(options.processes * TASKS);
    Ok(Duration::try_from_secs_f64(1.0 / checks)?)
}

/// Makes the checks that are due, each millisecond, until `end`.
async fn check(
    limiter: RedisLimiter,
    key: String,
    counts: Arc<Counts>,
    pace: Duration,
    end: Instant,
) {
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= end {
            return;
        }
        if due <= now {
            counts.add(&limiter.check(&key).await);
            due += pace;
        } else {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn report(report: Report) -> Result<()> {
    // Fails when nobody reads it any more, which ends the process.
    Ok(writeln!(io::stdout(), "{report}")?)
}

#[derive(Debug, Default)]
struct Counts {
    admitted: AtomicU64,
    from_leases: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn add(&self, answer: &Result<Decision, Error>) {
        let count = match answer {
            Ok(decision) if decision.is_admitted() => {
                if decision.source() == Source::Lease {
                    self.from_leases.fetch_add(1, Relaxed);
                }
                &self.admitted
            }
            Ok(_) => &self.refused,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Relaxed);
    }

    fn totals(&self, limiter: &RedisLimiter) -> Totals {
        let Counters { leases, lease_permits, lease_unused, lease_returned, .. } =
            limiter.counters();
        Totals {
            admitted: self.admitted.load(Relaxed),
            from_leases: self.from_leases.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            leases,
            permits: lease_permits,
            unused: lease_unused,
            returned: lease_returned,
        }
    }
}
