//! Decisions a second by a client, beside `fred` without the limiter and beside peers.

use std::{
    num::NonZeroU32,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fred::{
    clients::Client,
    interfaces::{ClientLike, LuaInterface},
    types::{
        Key, Value,
        config::{Config, ConnectionConfig, PerformanceConfig, TcpConfig},
    },
};
use futures::future::BoxFuture;
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use redis::{
    IntoConnectionInfo,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
};
use throttled::{RateLimiter, RedisRateLimiter};
use tokio::runtime::Runtime;

use super::{NAME, WITHIN, busy, key, wire::captured};
use crate::rounds::{Contender, Effort, Table, rounds};

/// Checks the key of a number, and returns whether it was admitted.
type Check = Arc<dyn Fn(usize) -> BoxFuture<'static, Result<bool>> + Send + Sync>;

/// Keys, whether their checks are admitted or refused, and the numbers of concurrent tasks.
const SCENARIOS: [(&str, usize, bool, &[usize]); 2] =
    [("100,000, admitted", 100_000, true, &[1, 50, 500]), ("1, refused", 1, false, &[1, 500])];

/// What a turn measures: the rates, and then percentiles of the times of checks.
const FIGURES: [&str; RATES + PERCENTILES.len()] =
    ["1,000/s", "1,000 per s of processor time", "p50, us", "p99, us", "p99.9, us"];
const RATES: usize = 2;
const PERCENTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Prints the speed of the clients.
pub(super) fn print(server: &Server, effort: &Effort) -> Result<()> {
    println!(
        "## Clients\n\nConcurrent tasks check through one connection, on Tokio's multi-threaded runtime: the median of {} \
         rounds ± half the interquartile range. Processor time is the client's. p50, p99 and p99.9 are percentiles of \
         the time from a check's call to its decision, by the clock on the wall. Bare fred is the same script with the same arguments by `evalsha`. \
         limiter-redis sends concurrent checks in batches, and answers checks of a refused key from its cache of denials; the \
         others send one call for each check.\n",
        effort.rounds
    );
    let runtime = Runtime::new()?;
    let mut table = None;
    for (name, keys, admits, tasks) in SCENARIOS {
        let checks = checks(&runtime, &server.url(), keys, admits)?;
        for tasks in tasks {
            let contenders = checks.iter().map(|(name, check)| Contender {
                name: (*name).to_owned(),
                turn: Box::new(|| turn(&runtime, check, keys, admits, *tasks, effort.turn * 10)),
            });
            let measured = rounds(effort.rounds, contenders.collect())?;
            let shown = if admits { FIGURES.len() } else { RATES };
            for (figure, unit) in FIGURES.iter().enumerate().take(shown) {
                let names = measured.iter().map(|it| it.name.as_str());
                let head = ["keys", "tasks", "figure"].into_iter().chain(names);
                let table = table.get_or_insert_with(|| Table::new(head));
                let figures = measured.iter().map(|it| it.figures[figure].show(1));
                let row = [name.to_owned(), tasks.to_string(), (*unit).to_owned()];
                table.row(row.into_iter().chain(figures));
            }
        }
    }
    println!("{}", table.map(|table| table.to_string()).unwrap_or_default());
    Ok(())
}

/// Checks keys by concurrent tasks for the time of a turn.
fn turn(
    runtime: &Runtime,
    check: &Check,
    keys: usize,
    admits: bool,
    tasks: usize,
    time: Duration,
) -> Result<[f64; FIGURES.len()]> {
    let (start, before) = (Instant::now(), busy(process::id())?);
    let shared = Arc::new((AtomicUsize::new(0), AtomicBool::new(false)));
    let task = |_| {
        let (check, shared) = (Arc::clone(check), Arc::clone(&shared));
        runtime.spawn(async move {
            let (next, is_over) = &*shared;
            let (mut number, mut micros) = (0, Vec::new());
            while !is_over.load(Relaxed) {
                // A cached denial takes little longer than two readings of the clock.
                let begin = admits.then(Instant::now);
                let admitted = check(next.fetch_add(7_919, Relaxed) % keys).await?;
                micros.extend(begin.map(|begin| begin.elapsed().as_secs_f64() * 1e6));
                ensure!(admitted == admits, "a check was not as expected");
                number += 1;
            }
            Ok((number, micros))
        })
    };
    let tasks: Vec<_> = (0..tasks).map(task).collect();
    // Not a timer of the runtime: tasks that never wait would delay it.
    thread::sleep(time);
    shared.1.store(true, Relaxed);
    let (mut number, mut micros) = (0, Vec::new());
    for task in tasks {
        let (of_task, times) = runtime.block_on(task)??;
        number += of_task;
        micros.extend(times);
    }
    let (seconds, own) = (start.elapsed().as_secs_f64(), busy(process::id())? - before);
    micros.sort_by(f64::total_cmp);
    let at = |part: f64| micros.get((micros.len() as f64 * part) as usize).copied();
    let [p50, p99, p999] = PERCENTILES.map(|part| at(part).unwrap_or(f64::NAN));
    Ok([f64::from(number) / seconds / 1e3, f64::from(number) / own / 1e3, p50, p99, p999])
}

/// Returns the contenders. Their burst is so large that all checks of a run are admitted, or else one permit that does not
/// recover during the run.
fn checks(
    runtime: &Runtime,
    url: &str,
    keys: usize,
    admits: bool,
) -> Result<[(&'static str, Check); 4]> {
    let (burst, an_hour): (u16, u32) = if admits { (10_000, 100) } else { (1, 1) };
    let policy = Policy::gcra(NAME, Quota::per_hour(an_hour.into()).try_with_burst(burst.into())?);
    let subjects: Arc<[String]> = (0..keys).map(key).collect();
    let names = |prefix: &str| -> Arc<[Key]> {
        subjects.iter().map(|subject| Key::from(format!("{prefix}{keys}:{subject}"))).collect()
    };

    let builder =
        RedisLimiter::builder(policy.clone()).prefix(&format!("l{keys}")).deadline(WITHIN);
    let limiter = runtime.block_on(builder.connect(url))?;
    let own = Arc::clone(&subjects);
    let ours: Check = Arc::new(move |index| {
        let (limiter, subjects) = (limiter.clone(), Arc::clone(&own));
        Box::pin(async move { Ok(limiter.check(subjects[index].as_str()).await?.is_admitted()) })
    });

    let (source, calls) = captured(&policy, &format!("f{keys}"), &[key(0)])?;
    let arguments = calls.into_iter().next().context("no call")?.arguments;
    let arguments = arguments.into_iter().map(|argument| Value::Bytes(argument.into()));
    let arguments: Vec<Value> = arguments.collect();
    let client = runtime.block_on(connect(url))?;
    let digest: String = runtime.block_on(client.script_load(source))?;
    let stored = names("f");
    let fred: Check = Arc::new(move |index| {
        let (client, digest) = (client.clone(), digest.clone());
        let (key, arguments) = (stored[index].clone(), arguments.clone());
        Box::pin(async move {
            let reply: Value = client.evalsha(digest, key, arguments).await?;
            Ok(first_integer(&reply) > Some(0))
        })
    });

    let positive = |number| NonZeroU32::new(number).context("a quota is positive");
    let quota = throttled::Quota::per_hour(positive(an_hour)?).with_burst(positive(burst.into())?);
    let limiter = Arc::new(RedisRateLimiter::new(runtime.block_on(manager(url))?));
    let stored = names("t");
    let throttled: Check = Arc::new(move |index| {
        let (limiter, stored) = (Arc::clone(&limiter), Arc::clone(&stored));
        Box::pin(async move {
            let key = stored[index].as_str().context("a key is text")?;
            Ok(limiter.check(key, quota).await?.is_allowed())
        })
    });

    let (client, stored) = (runtime.block_on(connect(url))?, names("p"));
    let interval = Duration::from_secs(3_600) / an_hour;
    let tower: Check = Arc::new(move |index| {
        let (client, key) = (client.clone(), stored[index].clone());
        Box::pin(async move {
            let refused = tower_rate_limit_fred::rate_limit(&client, key, burst, interval).await?;
            Ok(refused.is_none())
        })
    });

    let all = [
        ("limiter-redis", ours),
        ("bare fred", fred),
        ("throttled", throttled),
        ("tower-rate-limit-fred", tower),
    ];
    if !admits {
        for (_, check) in &all {
            // Takes the only permit.
            runtime.block_on(check(0))?;
        }
    }
    Ok(all)
}

/// Returns a client with one connection, with the settings of `limiter_redis::connect`.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let performance =
        PerformanceConfig { default_command_timeout: WITHIN, ..PerformanceConfig::default() };
    let tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
    let connection =
        ConnectionConfig { max_command_attempts: 1, tcp, ..ConnectionConfig::default() };
    let client = Client::new(Config::from_url(url)?, Some(performance), Some(connection), None);
    client.init().await?;
    Ok(client)
}

/// Returns a connection with the same deadline as those of `fred`.
async fn manager(url: &str) -> Result<ConnectionManager> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(WITHIN));
    Ok(client.get_connection_manager_with_config(config).await?)
}

/// Returns the first integer of a reply, however deeply it is nested. It is positive if the script has
/// admitted the check, and else 0.
fn first_integer(reply: &Value) -> Option<i64> {
    match reply {
        Value::Integer(integer) => Some(*integer),
        Value::Array(values) => first_integer(values.first()?),
        _ => None,
    }
}
