//! A fleet of processes that share one limit through Redis, and take permits from it in bulk.
//!
//! ```console
//! $ SECONDS=2 REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-fleet
//! admitted 55461 of 79965 checks, 99.9 % of them from leases
//! bound    62205: a burst of 20000, and 20000/s for 2.1 s
//! calls    502 to the server: 0.0091 an admission
//! $ SECONDS=2 REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-fleet -- --no-leases
//! admitted 10182 of 10182 checks, 0.0 % of them from leases
//! bound    60987: a burst of 20000, and 20000/s for 2.0 s
//! calls    10183 to the server: 1.0001 an admission
//! ```
//!
//! The program starts itself again, once for each of four processes. Each of them checks the same key, and all together try
//! twice the limit. The program shows how many checks are admitted and how many calls they cost, and fails if the fleet exceeds
//! its limit. `SECONDS` sets how long, 10 by default. No other program should use the server meanwhile: its calls would be
//! counted, too.

use std::{
    env,
    process::{Command, Stdio, id},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use limiter_core::{Policy, Quota, Source};
use limiter_redis::RedisLimiter;
use tokio::time::sleep;

const PROCESSES: u32 = 4;

/// Permits a second, and the burst.
const RATE: u32 = 20_000;

/// How many times the rate the processes try together.
const LOAD: u32 = 2;

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let seconds = env::var("SECONDS").unwrap_or_else(|_| "10".to_owned());
    let time = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.with_context(|| format!("SECONDS is {seconds:?}: use a number"))?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => fleet(&url, true),
        ["--no-leases"] => fleet(&url, false),
        ["process", key, leases] => process(&url, key, leases == "true", time),
        _ => bail!("unknown arguments {words:?}; use none, or --no-leases"),
    }
}

/// Runs the processes, and prints what they did.
fn fleet(url: &str, leases: bool) -> Result<()> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    let before = calls(&mut connection)?;
    // Each run has a key of its own, so that it begins with the whole burst.
    let key = format!("run-{}", id());
    let start = Instant::now();
    let processes = (0..PROCESSES).map(|_| {
        let mut command = Command::new(env::current_exe()?);
        command.args(["process", &key, &leases.to_string()]);
        Ok(command.stdout(Stdio::piped()).spawn()?)
    });
    let (mut admitted, mut from_leases, mut checks) = (0, 0, 0);
    for process in processes.collect::<Result<Vec<_>>>()? {
        let output = process.wait_with_output()?;
        ensure!(output.status.success(), "a process failed: {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        let numbers: Vec<u64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let &[of_process, of_leases, all] = numbers.as_slice() else {
            bail!("a process printed {text:?}")
        };
        admitted += of_process;
        from_leases += of_leases;
        checks += all;
    }
    let seconds = start.elapsed().as_secs_f64();
    let calls = calls(&mut connection)?.saturating_sub(before);
    let bound = f64::from(RATE) * (1.0 + seconds);
    let [leased, each] = [100 * from_leases, calls].map(|it| it as f64 / admitted.max(1) as f64);
    println!("admitted {admitted} of {checks} checks, {leased:.1} % of them from leases");
    println!("bound    {bound:.0}: a burst of {RATE}, and {RATE}/s for {seconds:.1} s");
    println!("calls    {calls} to the server: {each:.4} an admission");
    ensure!(admitted as f64 <= bound, "the limit was exceeded");
    Ok(())
}

/// Checks the key for some time, gives leased permits back, and prints how many checks were admitted, how many of them by
/// leases, and how many there were.
#[tokio::main(worker_threads = 2)]
async fn process(url: &str, key: &str, leases: bool, time: Duration) -> Result<()> {
    let policy = Policy::gcra("fleet", Quota::per_second(RATE.into()));
    // A busy machine is not an outage.
    let builder = RedisLimiter::builder(policy).deadline(Duration::from_secs(1)).lease(leases);
    let limiter = builder.connect(url).await?;
    let (mut admitted, mut from_leases, mut checks) = (0_u64, 0_u64, 0_u64);
    let (mut due, end) = (Instant::now(), Instant::now() + time);
    while Instant::now() < end {
        if due > Instant::now() {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        due += Duration::from_secs(1) * PROCESSES / (RATE * LOAD);
        let decision = limiter.check(key).await?;
        checks += 1;
        admitted += u64::from(decision.is_admitted());
        from_leases += u64::from(decision.is_admitted() && decision.source() == Source::Lease);
    }
    // What is not given back counts as used until it has recovered.
    limiter.drain(Duration::from_secs(1)).await?;
    println!("{admitted} {from_leases} {checks}");
    Ok(())
}

/// Returns how many calls of scripts the server has received.
fn calls(connection: &mut redis::Connection) -> Result<u64> {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(connection)?;
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    Ok(lines.filter_map(calls).sum())
}
