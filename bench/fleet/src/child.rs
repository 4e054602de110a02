//! One process of a fleet.

mod audited;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use limiter_core::Policy;
use limiter_redis::RedisLimiter;
use tokio::{runtime::Builder, task::JoinSet};

/// How many tasks make calls that overlap.
const TASKS: usize = 64;

/// What a process is to do.
pub(crate) struct Job {
    pub(crate) contender: String,
    pub(crate) url: String,
    /// The limit of each key, as text.
    pub(crate) policy: String,
    /// Of each check.
    pub(crate) deadline: Duration,
    pub(crate) keys: usize,
    /// When which key is checked:
    /// - `key by key`: tasks check one key each, again and again, `checks` times a second together.
    /// - `keys in turn`: 64 tasks check all keys in turn, as fast as they can.
    /// - `even`: `checks` times a second, evenly spread, each check in a task of its own.
    /// - `bursts`: the same within the first 200 ms of each second.
    /// - `audited`: as `key by key` at full speed, with pauses and refunds, and writes its admissions to `log`.
    pub(crate) pattern: String,
    /// How many checks a second this process makes. With 0, as many as it can.
    pub(crate) checks: f64,
    /// When it begins, as Unix time.
    pub(crate) begins: Duration,
    pub(crate) seconds: f64,
    /// Where to write when each admission began and ended, in microseconds of Unix time.
    pub(crate) log: Option<PathBuf>,
}

impl Job {
    pub(crate) fn words(&self) -> Vec<String> {
        let log = self.log.as_ref().map(|log| log.display().to_string());
        let words = [
            self.contender.clone(),
            self.url.clone(),
            self.policy.clone(),
            self.deadline.as_secs_f64().to_string(),
            self.keys.to_string(),
            self.pattern.clone(),
            self.checks.to_string(),
            self.begins.as_secs_f64().to_string(),
            self.seconds.to_string(),
        ];
        words.into_iter().chain(log).collect()
    }

    pub(crate) fn read(words: &[&str]) -> Result<Self> {
        let [contender, url, policy, deadline, keys, pattern, checks, begins, seconds, log @ ..] =
            words
        else {
            bail!("too few words: {words:?}");
        };
        Ok(Self {
            contender: (*contender).to_owned(),
            url: (*url).to_owned(),
            policy: (*policy).to_owned(),
            deadline: Duration::from_secs_f64(deadline.parse()?),
            keys: keys.parse()?,
            pattern: (*pattern).to_owned(),
            checks: checks.parse()?,
            begins: Duration::from_secs_f64(begins.parse()?),
            seconds: seconds.parse()?,
            log: log.first().map(PathBuf::from),
        })
    }
}

/// Who is asked.
enum Contender {
    Limiter(RedisLimiter),
    Peer { client: Client, checks: AtomicU64 },
}

impl Contender {
    /// Returns whether the check was admitted, and `None` if it failed.
    async fn check(&self, key: &str) -> Option<bool> {
        match self {
            Self::Limiter(limiter) => {
                limiter.check(key).await.ok().map(|decision| decision.is_admitted())
            }
            Self::Peer { client, checks } => {
                // Its largest burst and rate are 65,535 and 1,000 a second, so it gets other keys in time.
                let key = format!("{key}-{}", checks.fetch_add(1, Relaxed) / 50_000);
                let interval = Duration::from_millis(1);
                let reply =
                    tower_rate_limit_fred::rate_limit(client, key, u16::MAX, interval).await;
                reply.ok().map(|refused| refused.is_none())
            }
        }
    }
}

/// How many checks there were.
#[derive(Clone, Copy, Default)]
struct Counts {
    decisions: u64,
    admitted: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, check: Option<bool>) {
        self.decisions += 1;
        self.admitted += u64::from(check == Some(true));
        self.failed += u64::from(check.is_none());
    }
}

pub(crate) fn run(job: &Job) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let contender = Arc::new(contender(job).await?);
        let wait = job.begins.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
        if wait.is_zero() && job.log.is_none() {
            eprintln!("a process began late");
        }
        tokio::time::sleep(wait).await;
        let parts = match job.pattern.as_str() {
            "key by key" => key_by_key(job, &contender).await?,
            "keys in turn" => keys_in_turn(job, &contender).await?,
            "even" => paced(job, &contender, 1.0).await,
            "bursts" => paced(job, &contender, 0.2).await,
            "audited" => audited::run(job, &contender).await?,
            other => bail!("unknown pattern {other:?}"),
        };
        let sum = |count: fn(&Counts) -> u64| parts.iter().map(count).sum::<u64>();
        println!(
            "{} {} {}",
            sum(|part| part.decisions),
            sum(|part| part.admitted),
            sum(|part| part.failed)
        );
        Ok(())
    })
}

async fn key_by_key(job: &Job, contender: &Arc<Contender>) -> Result<Vec<Counts>> {
    let end = Instant::now() + Duration::from_secs_f64(job.seconds);
    // Leases answer at once, so a task for each key is enough. Calls overlap.
    let tasks = if job.contender == "leases" { job.keys } else { TASKS };
    let pace = job.checks / tasks as f64;
    let tasks = (0..tasks).map(|task| {
        let contender = Arc::clone(contender);
        let key = format!("tenant-{}", task % job.keys);
        tokio::spawn(async move { checks(&contender, &key, pace, end).await })
    });
    let mut parts = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        parts.push(task.await?);
    }
    Ok(parts)
}

async fn keys_in_turn(job: &Job, contender: &Arc<Contender>) -> Result<Vec<Counts>> {
    let end = Instant::now() + Duration::from_secs_f64(job.seconds);
    let (keys, next) = (job.keys, Arc::new(AtomicUsize::new(0)));
    let tasks = (0..TASKS).map(|_| {
        let (contender, next) = (Arc::clone(contender), Arc::clone(&next));
        tokio::spawn(async move {
            let mut counts = Counts::default();
            while Instant::now() < end {
                let key = format!("tenant-{}", next.fetch_add(1, Relaxed) % keys);
                counts.add(contender.check(&key).await);
                tokio::task::yield_now().await;
            }
            counts
        })
    });
    let mut parts = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        parts.push(task.await?);
    }
    Ok(parts)
}

/// Starts all checks of each second within its first part, however long those before them take.
async fn paced(job: &Job, contender: &Arc<Contender>, part: f64) -> Vec<Counts> {
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    let all = (job.seconds * job.checks) as usize;
    while tasks.len() < all {
        let seconds = start.elapsed().as_secs_f64();
        let due = ((seconds.floor() + (seconds.fract() / part).min(1.0)) * job.checks) as usize;
        for check in tasks.len()..due.min(all) {
            let contender = Arc::clone(contender);
            let key = format!("tenant-{}", check % job.keys);
            tasks.spawn(async move {
                let mut counts = Counts::default();
                counts.add(contender.check(&key).await);
                counts
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tasks.join_all().await
}

/// Checks until `end`, `pace` times a second, or as often as possible with 0. Returns how many decisions there
/// were.
async fn checks(contender: &Contender, key: &str, pace: f64, end: Instant) -> Counts {
    let (start, mut counts) = (Instant::now(), Counts::default());
    while Instant::now() < end {
        let due = (start.elapsed().as_secs_f64() * pace) as u64;
        let many = if pace == 0.0 { 256 } else { due.saturating_sub(counts.decisions) };
        for _ in 0..many {
            counts.add(contender.check(key).await);
        }
        if pace == 0.0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    counts
}

async fn contender(job: &Job) -> Result<Contender> {
    if job.contender == "peer" {
        let client = Client::new(Config::from_url(&job.url)?, None, None, None);
        client.init().await?;
        return Ok(Contender::Peer { client, checks: AtomicU64::new(0) });
    }
    let policy = Policy::parse("fleet", &job.policy)?;
    let limiter = RedisLimiter::builder(policy).deadline(job.deadline);
    let limiter = match job.contender.as_str() {
        "leases" => limiter.lease(true),
        "calls" => limiter,
        other => bail!("unknown contender {other:?}"),
    };
    Ok(Contender::Limiter(limiter.connect(&job.url).await.context("a limiter")?))
}
