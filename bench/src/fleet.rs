//! Processes that share limits through one server: with leases, without, and by a peer.

use std::{
    env,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::runtime::{Builder, Runtime};

use crate::rounds::{Contender, Effort, Table, rounds, timed};

const PROCESSES: usize = 8;
const KEYS: usize = 4;

/// How many tasks of a process make calls that overlap.
const TASKS: usize = 64;

/// What a fleet is, who checks, the permits of a key a second and its burst, and how many times the limit the processes
/// try together. With 0, as fast as they can.
const FLEETS: [(&str, &str, u64, f64); 6] = [
    ("leases, as fast as it goes", "leases", 2_000_000, 0.0),
    ("each check a call, as fast as it goes", "calls", 2_000_000, 0.0),
    ("tower-rate-limit-fred, as fast as it goes", "peer", 2_000_000, 0.0),
    ("leases, 0.6 of the limit", "leases", 2_000_000, 0.6),
    ("leases, twice the limit", "leases", 200_000, 2.0),
    ("leases, 10 times the limit", "leases", 50_000, 10.0),
];

pub(crate) fn print(effort: &Effort) -> Result<()> {
    let server = Server::start();
    // Longer turns than those of one process, and fewer.
    let (number, seconds) = (effort.rounds.div_ceil(10), effort.turn.as_secs_f64() * 500.0);
    println!(
        "The server and all processes share the machine.\n\n## Fleet\n\n{PROCESSES} processes with one connection each, {KEYS} keys \
         with a burst of one second, leases of 250 ms, for {seconds} s: the median of {number} rounds ± half the interquartile range. A call is an `EVALSHA`, which may be a batch. Of the limit: what was admitted, of the burst and the rate \
         of all keys over that time.\n"
    );
    let contenders = FLEETS.iter().map(|fleet| Contender {
        name: fleet.0.to_owned(),
        turn: Box::new(|| turn(&server, fleet, seconds)),
    });
    let measured = rounds(number, contenders.collect())?;
    let columns = ["admitted, 1,000/s", "calls an admission", "calls a decision", "of the limit"];
    let mut table = Table::new(["processes"].into_iter().chain(columns));
    for it in &measured {
        let [rate, an_admission, a_decision, limit] = &it.figures;
        let figures = [rate.show(0), an_admission.show(5), a_decision.show(5), limit.show(3)];
        table.row([it.name.clone()].into_iter().chain(figures));
    }
    println!("{table}");
    for other in &measured[1..3] {
        let ratio = measured[0].figures[0].over(&other.figures[0]).show(1);
        println!("Admissions by leases to those by {}: {ratio}.\n", other.name);
    }
    check_of_a_lease(&server, effort)
}

fn turn(server: &Server, fleet: &(&str, &str, u64, f64), seconds: f64) -> Result<[f64; 4]> {
    let (_, who, rate, load) = *fleet;
    server.command(&["FLUSHALL"])?;
    server.command(&["CONFIG", "RESETSTAT"])?;
    // All begin at the same time, once they are connected.
    let begins = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() + 0.5;
    let pace = load * (rate * KEYS as u64) as f64 / PROCESSES as f64;
    let url = server.url();
    let children = (0..PROCESSES).map(|_| {
        let mut command = Command::new(env::current_exe()?);
        command.args(["process", who, &url, &rate.to_string()]);
        command.args([pace, begins, seconds].map(|number| number.to_string()));
        Ok(command.stdout(Stdio::piped()).spawn()?)
    });
    let children = children.collect::<Result<Vec<Child>>>()?;
    let (mut decisions, mut admitted) = (0.0, 0.0);
    for child in children {
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "a process failed");
        let text = String::from_utf8(output.stdout)?;
        let (all, of_them) = text.trim().split_once(' ').context("two numbers")?;
        decisions += all.parse::<f64>()?;
        admitted += of_them.parse::<f64>()?;
    }
    let stats = server.command(&["INFO", "commandstats"])?;
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok();
    let calls: f64 = lines.filter_map(calls).sum();
    let limit = (rate * KEYS as u64) as f64 * (1.0 + seconds);
    Ok([admitted / seconds / 1e3, calls / admitted, calls / decisions, admitted / limit])
}

/// Who decides in a process.
enum Decider {
    Limiter(RedisLimiter),
    Peer(Client, AtomicU64),
}

impl Decider {
    async fn is_admitted(&self, key: &str) -> bool {
        match self {
            Self::Limiter(limiter) => {
                limiter.check(key).await.is_ok_and(|decision| decision.is_admitted())
            }
            Self::Peer(client, checks) => {
                // Its largest burst and rate are 65,535 and 1,000 a second, so it gets other keys in time.
                let key = format!("{key}-{}", checks.fetch_add(1, Relaxed) / 50_000);
                let interval = Duration::from_millis(1);
                let reply = tower_rate_limit_fred::rate_limit(client, key, u16::MAX, interval);
                reply.await.is_ok_and(|refused| refused.is_none())
            }
        }
    }
}

/// Runs one process of a fleet, and prints how many decisions there were and how many admitted.
pub(crate) fn process(words: &[&str]) -> Result<()> {
    let &[who, url, rate, pace, begins, seconds] = words else { bail!("six words") };
    let [pace, begins, seconds]: [f64; 3] = [pace.parse()?, begins.parse()?, seconds.parse()?];
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let decider = Arc::new(runtime.block_on(async {
        if who == "peer" {
            let client = Client::new(Config::from_url(url)?, None, None, None);
            client.init().await?;
            return anyhow::Ok(Decider::Peer(client, AtomicU64::new(0)));
        }
        let policy = Policy::parse("fleet", &format!("{rate}/s"))?;
        let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(1));
        Ok(Decider::Limiter(limiter.lease(who == "leases").connect(url).await?))
    })?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    thread::sleep(Duration::from_secs_f64((begins - now).max(0.0)));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    // Leases answer at once, so a task for each key is enough. Calls overlap.
    let tasks = if who == "leases" { KEYS } else { TASKS };
    let tasks = (0..tasks).map(|task| {
        let (decider, key) = (Arc::clone(&decider), format!("tenant-{}", task % KEYS));
        runtime.spawn(async move { checks(&decider, &key, pace / tasks as f64, end).await })
    });
    let (mut decisions, mut admitted) = (0, 0);
    for task in tasks.collect::<Vec<_>>() {
        let (all, of_them) = runtime.block_on(task)?;
        decisions += all;
        admitted += of_them;
    }
    println!("{decisions} {admitted}");
    Ok(())
}

/// Checks until `end`, `pace` times a second, or as often as possible with 0. Returns how many decisions there were and how
/// many admitted.
async fn checks(decider: &Decider, key: &str, pace: f64, end: Instant) -> (u64, u64) {
    let (start, mut decisions, mut admitted) = (Instant::now(), 0, 0);
    while Instant::now() < end {
        let due = (start.elapsed().as_secs_f64() * pace) as u64;
        let many = if pace == 0.0 { 256 } else { due.saturating_sub(decisions) };
        for _ in 0..many {
            decisions += 1;
            admitted += u64::from(decider.is_admitted(key).await);
        }
        if pace == 0.0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    (decisions, admitted)
}

fn check_of_a_lease(server: &Server, effort: &Effort) -> Result<()> {
    println!(
        "## A check of a lease\n\nns of processor time on each thread: the median of {} rounds ± half the range of their middle \
         half. Checks that wait for a lease are in it.\n",
        effort.rounds
    );
    let runtime = Runtime::new()?;
    // A lease of a second, and enough permits for all checks.
    let quota = Quota::new(4_000_000, Duration::from_secs(1))?.try_with_burst(40_000_000)?;
    let builder = RedisLimiter::builder(Policy::gcra("single", quota)).lease(true);
    let limiter = &runtime.block_on(builder.connect(&server.url()))?;
    let handle = runtime.handle();
    let (turn, mut contenders) = (Effort { turn: effort.turn * 5, ..*effort }, Vec::new());
    for (name, threads) in [("one thread", 1), ("two threads, one key", 2)] {
        contenders.push(timed(name, &turn, threads, None, move |number| {
            handle.block_on(async {
                let mut admitted = 0;
                for _ in 0..number {
                    let decision = limiter.check("tenant-1").await;
                    admitted += usize::from(decision.is_ok_and(|it| it.is_admitted()));
                }
                admitted
            })
        }));
    }
    let mut table = Table::new(["threads", "ns"]);
    for it in rounds(effort.rounds, contenders)? {
        table.row([it.name, it.figures[0].show(0)]);
    }
    println!("{table}");
    Ok(())
}
