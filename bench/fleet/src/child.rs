//! One process of a fleet.

use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::audit::unix_micros;
use tokio::runtime::Builder;

/// What a process is to do.
pub(crate) struct Job {
    pub(crate) contender: String,
    pub(crate) url: String,
    /// Permits of a key a second, and its burst.
    pub(crate) rate: u64,
    pub(crate) keys: usize,
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
        let Self { contender, url, rate, keys, checks, begins, seconds, log } = self;
        let numbers = [rate.to_string(), keys.to_string(), checks.to_string()];
        let times = [begins.as_secs_f64().to_string(), seconds.to_string()];
        let log = log.as_ref().map(|log| log.display().to_string());
        [contender.clone(), url.clone()]
            .into_iter()
            .chain(numbers)
            .chain(times)
            .chain(log)
            .collect()
    }

    pub(crate) fn read(words: &[&str]) -> Result<Self> {
        let [contender, url, rate, keys, checks, begins, seconds, log @ ..] = words else {
            bail!("too few words: {words:?}");
        };
        Ok(Self {
            contender: (*contender).to_owned(),
            url: (*url).to_owned(),
            rate: rate.parse()?,
            keys: keys.parse()?,
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
    async fn check(&self, key: &str) -> bool {
        match self {
            Self::Limiter(limiter) => {
                limiter.check(key).await.is_ok_and(|decision| decision.is_admitted())
            }
            Self::Peer { client, checks } => {
                // Its largest burst and rate are 65,535 and 1,000 a second, so it gets other keys in time.
                let key = format!("{key}-{}", checks.fetch_add(1, Relaxed) / 50_000);
                let interval = Duration::from_millis(1);
                let reply =
                    tower_rate_limit_fred::rate_limit(client, key, u16::MAX, interval).await;
                reply.is_ok_and(|refused| refused.is_none())
            }
        }
    }
}

pub(crate) fn run(job: &Job) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let contender = Arc::new(contender(job).await?);
        let wait = job.begins.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
        tokio::time::sleep(wait).await;
        let end = Instant::now() + Duration::from_secs_f64(job.seconds);
        // Leases answer at once, so a task for each key is enough. Calls overlap.
        let tasks = if job.contender == "leases" { job.keys } else { 64 };
        let pace = job.checks / tasks as f64;
        let log = job.log.as_ref().map(File::create).transpose()?.map(Arc::new);
        let tasks: Vec<_> = (0..tasks)
            .map(|task| {
                let (contender, log) = (Arc::clone(&contender), log.clone());
                let key = format!("tenant-{}", task % job.keys);
                tokio::spawn(async move { checks(&contender, &key, pace, end, log).await })
            })
            .collect();
        let mut sum = [0_u64; 2];
        for task in tasks {
            let [decisions, admitted] = task.await??;
            sum = [sum[0] + decisions, sum[1] + admitted];
        }
        println!("{} {}", sum[0], sum[1]);
        Ok(())
    })
}

/// Checks until `end`, `pace` times a second, or as often as possible with 0. Returns how many decisions there
/// were, and how many admitted.
async fn checks(
    contender: &Contender,
    key: &str,
    pace: f64,
    end: Instant,
    log: Option<Arc<File>>,
) -> Result<[u64; 2]> {
    let (start, mut decisions, mut admitted) = (Instant::now(), 0_u64, 0_u64);
    let mut lines: Vec<u8> = Vec::new();
    while Instant::now() < end {
        // Of an audit: all processes at full speed for a second, and then quiet until the burst is there again.
        if pace == 0.0 && log.is_some() && !(unix_micros() / 1_000_000).is_multiple_of(4) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        let due = (start.elapsed().as_secs_f64() * pace) as u64;
        let many = if pace == 0.0 { 256 } else { due.saturating_sub(decisions) };
        for _ in 0..many {
            let begun = log.as_ref().map(|_| unix_micros());
            let is_admitted = contender.check(key).await;
            decisions += 1;
            admitted += u64::from(is_admitted);
            if let (Some(log), Some(begun), true) = (&log, begun, is_admitted) {
                lines.extend(begun.to_le_bytes().into_iter().chain(unix_micros().to_le_bytes()));
                // What a killed process has not written is not audited.
                if lines.len() >= 512 {
                    (&**log).write_all(&lines)?;
                    lines.clear();
                }
            }
        }
        if let Some(log) = &log {
            (&**log).write_all(&lines)?;
            lines.clear();
        }
        if pace == 0.0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Ok([decisions, admitted])
}

async fn contender(job: &Job) -> Result<Contender> {
    if job.contender == "peer" {
        let client = Client::new(Config::from_url(&job.url)?, None, None, None);
        client.init().await?;
        return Ok(Contender::Peer { client, checks: AtomicU64::new(0) });
    }
    let policy = Policy::gcra("fleet", Quota::per_second(job.rate));
    let limiter = RedisLimiter::builder(policy);
    let limiter = limiter.deadline(Duration::from_secs(1));
    let limiter = match job.contender.as_str() {
        "leases" => limiter.lease(true),
        "calls" => limiter,
        other => bail!("unknown contender {other:?}"),
    };
    Ok(Contender::Limiter(limiter.connect(&job.url).await.context("a limiter")?))
}
